"""The command line: `keras-policies inspect`, `convert`, `verify`, `code`, `diff`.

Exit codes:

- 0: done.
- 1: a file could not be read, converted, verified or written (the reason is on stderr),
  or `diff` found a difference.
- 2: the command line is wrong: an unknown policy, an object that cannot be imported, a
  destination that does not end in `.keras`.
- 3: `inspect` found a model that opens only with an option or a package, or
  `convert --strict` found that something is lost or trains differently.
- 130: the user pressed Ctrl-C. 128 and the number of SIGTERM, SIGHUP or SIGBREAK: a
  signal ended the command.

The module `commands` implements the commands.
"""

import argparse
import contextlib
import contextvars
import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from keras_policies._common.text import color
from keras_policies.cli import commands, exit_codes, options, output, signals
from keras_policies.version import __version__

MODEL_FILE = (
    "a SavedModel folder, .h5 or .keras, also in a .zip, .tar.gz or .tgz; "
    "hf://user/model; .json or .yaml"
)
MODEL_FILES = f"{MODEL_FILE}; a folder of such models, or a glob"

ONE_MODEL = f"a legacy model ({MODEL_FILE}), or a .keras file of Keras 3"


EXAMPLES = """\
examples:
  keras-policies inspect model_of_2020
  keras-policies inspect zoo --recursive
  keras-policies convert model_of_2020 model.keras
  keras-policies convert old.h5 new.keras --policy float32 --verify outputs.npz
  keras-policies convert old.h5 new.keras --custom-objects my_layers:Attention
  keras-policies convert zoo --recursive --output-dir converted
  keras-policies verify model.keras outputs.npz
  keras-policies code model_of_2020 -o model.py --weights model.weights.h5
  keras-policies diff model_of_2020 model.keras
  keras-policies explain KP301

outputs.npz is recorded where the old model runs:
  np.savez("outputs.npz", x_0=x, y_0=model.predict(x))
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="keras-policies",
        description="Inspect models that tf.keras 2.0 to 2.15 saved, and convert them "
        "to Keras 3. TensorFlow is not needed.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(color="auto", verbose=False, fallback="KP002")
    parser.add_argument("--version", action="version", version=__version__)
    kinds = parser.add_subparsers(dest="command", required=True)
    _add_inspect(kinds)
    _add_convert(kinds)
    _add_verify(kinds)
    _add_code(kinds)
    _add_diff(kinds)
    _add_explain(kinds)
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for completions
        importlib.import_module("argcomplete").autocomplete(parser)
    return parser


def _add_inspect(kinds: Any) -> None:
    command = kinds.add_parser(
        "inspect",
        description="Say what is in models, and what load_model will do with them "
        "here, without building them.",
        help="describe models without building them",
        epilog="example: keras-policies inspect model_of_2020 --json",
    )
    command.add_argument("paths", metavar="PATH", nargs="+", help=MODEL_FILES)
    options.add(command, options.RECURSIVE, options.REPORT, options.BACKEND)
    options.add_output(command)
    command.set_defaults(run=commands.inspect)


def _add_convert(kinds: Any) -> None:
    command = kinds.add_parser(
        "convert",
        description="Open models, write them as .keras files that plain Keras 3 opens, "
        "and open these again to compare their outputs.",
        usage="keras-policies convert [options] SOURCE DEST.keras\n"
        "       keras-policies convert [options] --output-dir DIR PATH...",
        help="write .keras files that plain Keras 3 can open",
        epilog="example: keras-policies convert model_of_2020 model.keras",
    )
    command.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help=f"the model ({MODEL_FILE}), and the file to write; with --output-dir, any "
        "number of models, folders with models, and globs",
    )
    many = command.add_argument_group("many models")
    many.add_argument(
        "--output-dir",
        metavar="DIR",
        help="write a .keras file for each model to this folder; if a model fails, "
        "continue with the others",
    )
    many.add_argument(
        "--base",
        metavar="DIR",
        help="with --output-dir: make the paths of new files relative to this folder, "
        "by default the deepest one that contains all given models",
    )
    options.add(many, options.RECURSIVE, options.JOBS)
    new = command.add_argument_group("new files")
    either = new.add_mutually_exclusive_group()
    options.add(either, options.OVERWRITE)
    skip = "skip models whose new file exists"
    either.add_argument("--skip-existing", action="store_true", help=skip)
    dry_run = "show what would be converted, and to which file, without writing"
    new.add_argument("--dry-run", action="store_true", help=dry_run)
    opening = command.add_argument_group("opening the model")
    options.add(opening, *options.LOADING, options.WEIGHTS)
    checks = command.add_argument_group("checks")
    checks.add_argument(
        "--verify",
        metavar="OUTPUTS.npz",
        help="keep the new file only if it predicts what the old model did. Record the "
        "old model's inputs and outputs with "
        "np.savez('outputs.npz', x_0=x, y_0=model.predict(x)). Outputs may differ by "
        "1e-3 of the largest output; 1e-2 if a layer computes in float16, 5e-2 in "
        "bfloat16",
    )
    options.add(checks, options.NO_PLAIN)
    strict = "exit with 3 if something is lost or trains differently"
    checks.add_argument("--strict", action="store_true", help=strict)
    printed = command.add_argument_group("output")
    options.add(printed, options.REPORT)
    options.add_output(printed)
    command.set_defaults(run=commands.convert)


def _add_verify(kinds: Any) -> None:
    command = kinds.add_parser(
        "verify",
        description="Open models, and compare their predictions with recorded ones.",
        help="compare the outputs of models with recorded ones",
        epilog="example: keras-policies verify model.keras outputs.npz",
    )
    command.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help=f"a legacy model ({MODEL_FILES}), or a .keras file of Keras 3",
    )
    command.add_argument(
        "outputs",
        metavar="OUTPUTS",
        help="an .npz file of inputs x_0, x_1, … and outputs y_0, y_1, …; or a folder "
        "of them, with a/model.npz for PATH/a/model.keras",
    )
    options.add(command, options.RECURSIVE)
    options.add_output(command)
    options.add(command, *options.OPENING, *options.LOADING)
    command.set_defaults(run=commands.verify)


def _add_code(kinds: Any) -> None:
    command = kinds.add_parser(
        "code",
        description="Print Python code that builds a model with only Keras.",
        help="write Python code that builds a model with Keras alone",
        epilog="example: keras-policies code model_of_2020 -o model.py",
    )
    command.add_argument("path", metavar="MODEL", help=ONE_MODEL)
    command.add_argument(
        "-o",
        "--output",
        metavar="FILE.py",
        help="write the code to this file, and large constants to FILE.npz; by "
        "default, the code is printed",
    )
    command.add_argument(
        "--weights",
        metavar="FILE.weights.h5",
        help="also write the weights, for build_model().load_weights",
    )
    compiled = "also write the call of model.compile"
    command.add_argument("--compile", action="store_true", help=compiled)
    train = "also write initializers, which have no effect once weights are loaded"
    command.add_argument("--train", action="store_true", help=train)
    options.add(command, options.OVERWRITE, options.VERBOSE, *options.LOADING)
    command.set_defaults(run=commands.code, quiet=False, fallback="KP405")


def _add_diff(kinds: Any) -> None:
    command = kinds.add_parser(
        "diff",
        help="compare two models layer by layer",
        description="Compare the layers, their settings and weights, and the outputs "
        "of two models on seeded inputs. Exits with 1 if they differ.",
        epilog="example: keras-policies diff model_of_2020 model.keras",
    )
    for name in "old", "new":
        command.add_argument(name, metavar=name.upper(), help=ONE_MODEL)
    options.add_output(command)
    options.add(command, *options.LOADING)
    command.set_defaults(run=commands.diff)


def _add_explain(kinds: Any) -> None:
    command = kinds.add_parser(
        "explain",
        description="Print what codes mean, and what to do.",
        help="explain the code of an error, of a part or of an outcome",
        epilog="example: keras-policies explain KP301",
    )
    command.add_argument(
        "codes",
        metavar="CODE",
        nargs="*",
        help="such as KP301; by default, list all codes",
    )
    command.set_defaults(run=_explain)


def _explain(arguments: argparse.Namespace) -> int:
    from keras_policies.cli import explain

    return explain.explain(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, by default that of the process; return the exit code."""
    with output.escaping():
        parsed = _parser().parse_args(arguments)
        # In its own context, because `name_options` changes it.
        return contextvars.copy_context().run(_main, parsed)


def _main(parsed: argparse.Namespace) -> int:
    from keras_policies.legacy.base import hints

    hints.name_options()
    color.set(parsed.color)
    run: Callable[[argparse.Namespace], int] = parsed.run
    try:
        with signals.raised():
            code = run(parsed)
            sys.stdout.flush()
        return code
    except KeyboardInterrupt as error:  # temporary files are already removed
        with contextlib.suppress(OSError):  # the terminal is gone
            print(f"keras-policies: {_interrupted(parsed, error)}", file=sys.stderr)
        return exit_codes.SIGNALLED + getattr(error, "number", signal.SIGINT)
    except Exception as error:  # also from Keras or a user's class
        if isinstance(error, OSError) and output.has_closed(error):
            return exit_codes.FAILED
        from keras_policies.cli import reports, tasks

        problem = tasks.Problem.of(error, "", parsed.fallback)
        reports.print_problems([problem], parsed.verbose)
        is_wrong = problem.code == commands.CommandLineError.code
        return exit_codes.WRONG if is_wrong else exit_codes.FAILED


def _interrupted(parsed: argparse.Namespace, error: KeyboardInterrupt) -> str:
    """Return what ended a command, and how to continue it."""
    reason = str(error) or "interrupted"
    if vars(parsed).get("output_dir") is None or parsed.dry_run:
        return reason
    added = "" if parsed.skip_existing else " with --skip-existing"
    return f"{reason}. Run the command again{added} to convert the rest."
