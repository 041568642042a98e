"""The command line: `keras-policies inspect`, `convert`, `verify` and `code`.

Exit codes: 0, done; 1, a file could not be read, converted, verified or written, with
the reason on stderr; 2, the command line was wrong (an unknown policy, an object that
cannot be imported, a destination that is no `.keras` file). 3: `inspect` found that a
class or a function is missing; `convert --strict` left parts out.

`commands` has what they do.
"""

import argparse
import contextvars
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from keras_policies._common.text import printable
from keras_policies.cli import commands
from keras_policies.version import __version__

MODEL_FILE = (
    "a SavedModel folder, .h5 or .keras, also in a .zip, .tar.gz or .tgz; "
    "hf://user/model; .json or .yaml"
)
MODEL_FILES = f"{MODEL_FILE}; a folder of such models, or a glob"

EXAMPLES = """\
examples:
  keras-policies inspect model_of_2020
  keras-policies inspect zoo --recursive
  keras-policies convert model_of_2020 model.keras
  keras-policies convert old.h5 new.keras --policy float32 \\
      --custom-objects my_layers:Attention --verify outputs.npz
  keras-policies convert zoo --recursive --output-dir converted
  keras-policies verify model.keras outputs.npz
  keras-policies code model_of_2020 -o model.py --weights model.weights.h5

outputs.npz is recorded where the old model runs:
  np.savez("outputs.npz", x_0=x, y_0=model.predict(x))
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="keras-policies",
        description="Look into models that tf.keras 2.0 to 2.15 wrote, and convert "
        "them to Keras 3. TensorFlow is not needed.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    kinds = parser.add_subparsers(dest="command", required=True)
    _add_inspect(kinds)
    _add_convert(kinds)
    _add_verify(kinds)
    _add_code(kinds)
    return parser


def _add_inspect(kinds: Any) -> None:
    command = kinds.add_parser(
        "inspect",
        help="say what is in files, without building anything",
        epilog="example: keras-policies inspect model_of_2020 --json",
    )
    command.add_argument("paths", metavar="PATH", nargs="+", help=MODEL_FILES)
    _add_options_of_all(command)
    command.set_defaults(run=commands.inspect)


def _add_convert(kinds: Any) -> None:
    command = kinds.add_parser(
        "convert",
        usage="keras-policies convert [options] SOURCE DEST.keras\n"
        "       keras-policies convert [options] --output-dir DIR PATH...",
        help="write .keras files that stock Keras 3 opens",
        epilog="example: keras-policies convert model_of_2020 model.keras",
    )
    command.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help=f"{MODEL_FILE}, and the file to write; with --output-dir: {MODEL_FILES}",
    )
    command.add_argument(
        "--output-dir",
        metavar="DIR",
        help="write a .keras file for each model below this folder, and go on past "
        "models that fail",
    )
    command.add_argument(
        "--base",
        metavar="DIR",
        help="with --output-dir: paths of new files are relative to this folder, "
        "by default the deepest one that contains all models given",
    )
    existing = command.add_mutually_exclusive_group()
    existing.add_argument(
        "--overwrite", action="store_true", help="replace files that exist"
    )
    existing.add_argument(
        "--skip-existing", action="store_true", help="leave files that exist, and go on"
    )
    command.add_argument(
        "--dry-run",
        action="store_true",
        help="say what would be converted and where to, and write nothing",
    )
    command.add_argument(
        "--strict",
        action="store_true",
        help="end with 3 if parts of a model are left out",
    )
    _add_options_of_all(command)
    _add_options_of_opening(command)
    command.add_argument(
        "--verify",
        metavar="OUTPUTS.npz",
        help="keep the new file only if it predicts what the old model did: inputs "
        "x_0, x_1, … and outputs y_0, y_1, …, which np.savez('outputs.npz', x_0=x, "
        "y_0=model.predict(x)) records. Allowed is 1e-3 of the largest output; 1e-2 "
        "if a layer computes in float16, 5e-2 in bfloat16",
    )
    command.set_defaults(run=commands.convert)


def _add_verify(kinds: Any) -> None:
    command = kinds.add_parser(
        "verify",
        help="compare what models predict with recorded outputs",
        epilog="example: keras-policies verify model.keras outputs.npz",
    )
    command.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help=f"{MODEL_FILES}; legacy models, or .keras files of Keras 3",
    )
    command.add_argument(
        "outputs",
        metavar="OUTPUTS",
        help="an .npz file of inputs x_0, x_1, … and outputs y_0, y_1, …; or a folder "
        "of them, with a/model.npz for PATH/a/model.keras",
    )
    _add_options_of_all(command)
    _add_options_of_opening(command)
    command.set_defaults(run=commands.verify)


def _add_code(kinds: Any) -> None:
    command = kinds.add_parser(
        "code",
        help="write the source code of a model, which builds it with Keras alone",
        epilog="example: keras-policies code model_of_2020 -o model.py",
    )
    command.add_argument("path", metavar="MODEL", help=f"{MODEL_FILE}; or of Keras 3")
    command.add_argument(
        "-o",
        "--output",
        metavar="FILE.py",
        help="the file to write, with large constants in FILE.npz; by default, the "
        "code is printed",
    )
    command.add_argument(
        "--weights",
        metavar="FILE.weights.h5",
        help="write the weights, too, for build_model().load_weights",
    )
    command.add_argument(
        "--compile", action="store_true", help="write the call of model.compile, too"
    )
    command.add_argument(
        "--train",
        action="store_true",
        help="write initializers, which do not matter once weights are loaded",
    )
    command.add_argument(
        "--overwrite", action="store_true", help="replace files that exist"
    )
    _add_options_of_loading(command)
    command.set_defaults(run=commands.code, quiet=False)


def _add_options_of_all(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--recursive", action="store_true", help="look into folders in folders"
    )
    printed = command.add_mutually_exclusive_group()
    printed.add_argument(
        "--json", action="store_true", help="one JSON object a line, for scripts"
    )
    printed.add_argument("--quiet", action="store_true", help="print errors alone")


def _add_options_of_opening(command: argparse.ArgumentParser) -> None:
    """Add the options of commands that build models."""
    command.add_argument(
        "--jobs",
        metavar="N",
        type=int,
        default=os.cpu_count() or 1,
        help="models to build at the same time; by default one for each core",
    )
    command.add_argument(
        "--weights",
        metavar="FILE",
        help="the weights of an architecture (.json of to_json, .yaml of to_yaml)",
    )
    command.add_argument(
        "--no-plain",
        dest="plain",
        action="store_false",
        help="do not open new files in plain Keras, in another process",
    )
    _add_options_of_loading(command)


def _add_options_of_loading(command: argparse.ArgumentParser) -> None:
    """Add the options of opening one model."""
    command.add_argument(
        "--policy",
        metavar="NAME",
        help="replace the model's policy; layers with a dtype of their own keep it",
    )
    command.add_argument(
        "--custom-objects",
        metavar="MODULE:NAME",
        action="append",
        default=[],
        help="a class or function of the model, imported from your module; "
        "LAYER=MODULE:NAME for the function of a Lambda layer, or a class by another "
        "name; may be repeated",
    )
    command.add_argument(
        "--lost",
        choices=("rebuild", "numbers", "refuse"),
        default="rebuild",
        help="what happens to layers of a SavedModel whose classes are not given: "
        "rebuild them from their traced functions (numbers: with numbers in place of "
        "the texts that they look up by them), or refuse the model",
    )
    command.add_argument(
        "--texts",
        choices=("inside", "outside"),
        default="inside",
        help="where input texts become numbers: inside the model, which then runs with "
        "KERAS_BACKEND=tensorflow only, or outside of it, for which convert writes a "
        ".texts.json beside the new file",
    )
    command.add_argument(
        "--signature",
        metavar="NAME",
        help="open this signature of a SavedModel, such as serving_default",
    )
    command.add_argument(
        "--backends",
        metavar="NAMES",
        type=lambda names: names.split(","),
        default=["jax", "tensorflow", "torch"],
        help="where plain Keras has to compute the model rightly, such as jax,torch; "
        "by default on all three",
    )
    command.add_argument(
        "--unsafe", action="store_true", help="run code in the file (Lambda layers)"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, by default that of the process; return the exit code."""
    parsed = _parser().parse_args(arguments)
    # In a context of its own, since errors name options in it.
    return contextvars.copy_context().run(_main, parsed)


def _main(parsed: argparse.Namespace) -> int:
    from keras_policies.legacy.base import hints

    hints.name_options()
    run: Callable[[argparse.Namespace], int] = parsed.run
    try:
        return run(parsed)
    except (ValueError, TypeError) as error:
        print(f"keras-policies: {printable(str(error))}", file=sys.stderr)
        is_wrong = isinstance(error, commands.CommandLineError)
        return commands.WRONG if is_wrong else commands.FAILED
