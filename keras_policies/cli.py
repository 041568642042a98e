"""The command line: `keras-policies inspect` and `keras-policies convert`.

Exit codes: 0, done; 1, a file could not be read, converted or written, with the reason
on stderr; 2, the command line was wrong (an unknown policy, an object that cannot be
imported, a destination that is no `.keras` file). `inspect` ends with 3 if a class or a
function is missing that a model needs.

Somebody waits for each command, so each imports what it needs itself, and `inspect`
imports no Keras.
"""

import argparse
import functools
import importlib
import json
import os
import pathlib
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from keras_policies import starting
from keras_policies.printable import printable
from keras_policies.version import __version__

if TYPE_CHECKING:
    from keras_policies.legacy.many import Outcome

OK, FAILED, WRONG, MISSING = 0, 1, 2, 3
MODEL_FILE = "a SavedModel folder, .h5 or .keras"
MODEL_FILES = f"{MODEL_FILE}; a folder of such models, or a glob"

EXAMPLES = """\
examples:
  keras-policies inspect model_of_2020
  keras-policies inspect zoo --recursive
  keras-policies convert model_of_2020 model.keras
  keras-policies convert old.h5 new.keras --policy float32 \\
      --custom-objects my_layers:Attention --verify outputs.npz
  keras-policies convert zoo --recursive --output-dir converted

outputs.npz is recorded where the old model runs:
  np.savez("outputs.npz", x_0=x, y_0=model.predict(x))
"""


class CommandLineError(ValueError):
    """The command line was wrong; the message names the argument."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="keras-policies",
        description="Look into models that tf.keras 2.0 to 2.15 wrote, and convert "
        "them to Keras 3. TensorFlow is not needed.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    inspect = commands.add_parser(
        "inspect",
        help="say what is in files, without building anything",
        epilog="example: keras-policies inspect model_of_2020 --json",
    )
    inspect.add_argument("paths", metavar="PATH", nargs="+", help=MODEL_FILES)
    _add_options_of_both(inspect)
    inspect.set_defaults(run=_inspect)

    convert = commands.add_parser(
        "convert",
        usage="keras-policies convert [options] SOURCE DEST.keras\n"
        "       keras-policies convert [options] --output-dir DIR PATH...",
        help="write .keras files that stock Keras 3 opens",
        epilog="example: keras-policies convert model_of_2020 model.keras",
    )
    convert.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help=f"{MODEL_FILE}, and the file to write; with --output-dir: {MODEL_FILES}",
    )
    convert.add_argument(
        "--output-dir",
        metavar="DIR",
        help="write a .keras file for each model below this folder, and go on past "
        "models that fail",
    )
    convert.add_argument(
        "--jobs",
        metavar="N",
        type=int,
        default=os.cpu_count() or 1,
        help="models to convert at the same time; by default one for each core",
    )
    _add_options_of_both(convert)
    convert.add_argument(
        "--policy",
        metavar="NAME",
        help="a dtype policy for the layers that had the model's own",
    )
    convert.add_argument(
        "--custom-objects",
        metavar="MODULE:NAME",
        action="append",
        default=[],
        help="a class or function of the model, imported from your module; "
        "LAYER=MODULE:NAME for the function of a Lambda layer, or a class by another "
        "name; may be repeated",
    )
    convert.add_argument(
        "--overwrite", action="store_true", help="replace files that exist"
    )
    convert.add_argument(
        "--verify",
        metavar="OUTPUTS.npz",
        help="keep the new file only if it predicts what the old model did: inputs "
        "x_0, x_1, … and outputs y_0, y_1, …, which np.savez('outputs.npz', x_0=x, "
        "y_0=model.predict(x)) records. Allowed is 1e-3 of the largest output; 1e-2 "
        "if a layer computes in float16, 5e-2 in bfloat16",
    )
    convert.add_argument(
        "--unsafe", action="store_true", help="run code in the file (Lambda layers)"
    )
    convert.set_defaults(run=_convert)
    return parser


def _add_options_of_both(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--recursive", action="store_true", help="look into folders in folders"
    )
    command.add_argument(
        "--json", action="store_true", help="one JSON object a line, for scripts"
    )


def _custom_objects(texts: Sequence[str]) -> dict[str, Any]:
    """Return `{name: object}` for a list of `module:name` and `layer=module:name`."""
    if texts and os.getcwd() not in sys.path:  # the command's folder is, not the user's
        sys.path.insert(0, os.getcwd())
    return dict(map(_custom_object, texts))


def _custom_object(text: str) -> tuple[str, Any]:
    known_as, equals, place = text.rpartition("=")
    module, colon, name = place.partition(":")
    if not colon or not name or not module or (equals and not known_as):
        raise CommandLineError(
            f"--custom-objects {text!r}: expected module:name, such as "
            "my_layers:Attention, or layer=module:name."
        )
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # a module of the user's may raise anything
        raise CommandLineError(
            f"--custom-objects {text!r}: {type(error).__name__}: {error}."
        ) from error
    if not callable(found):
        raise CommandLineError(
            f"--custom-objects {text!r}: expected a class or a function, found "
            f"{found!r}."
        )
    return known_as or name, found


def _inspect(arguments: argparse.Namespace) -> int:
    """Describe one model, or many in a table; return the exit code."""
    from keras_policies.legacy import folders, inspection

    paths = folders.models(arguments.paths, arguments.recursive)
    if paths == arguments.paths[:1]:
        description = inspection.inspect_model(paths[0])
        if arguments.json:
            print(json.dumps(description.as_dict()))
        else:
            _reports().print_description(description)
        return MISSING if description.missing else OK
    from keras_policies.legacy import many

    outcomes = many.described(paths)
    if arguments.json:
        _print_json(outcomes)
    else:
        _reports().print_descriptions(outcomes)
    is_missing = any(item.found and item.found["missing"] for item in outcomes)
    return _report_failures(outcomes) or (MISSING if is_missing else OK)


def _reports() -> types.ModuleType:
    """Return the module that prints texts and tables, with rich."""
    return importlib.import_module("keras_policies.reports")


def _print_json(outcomes: Iterable["Outcome"]) -> None:
    for outcome in outcomes:
        print(json.dumps(outcome.as_dict()))


def _report_failures(outcomes: Sequence["Outcome"]) -> int:
    """Print each error in full to stderr; return the exit code."""
    failed = [outcome for outcome in outcomes if outcome.has_failed]
    for outcome in failed:
        print(f"keras-policies: {printable(str(outcome.error))}", file=sys.stderr)
    return FAILED if failed else OK


def _convert(arguments: argparse.Namespace) -> int:
    """Convert one model, or many; return the exit code."""
    _check(arguments)
    # Code in a file was written for tf.keras, and often calls TensorFlow.
    preferred = ("tensorflow",) if arguments.unsafe else ()
    backend = starting.choose_backend((*preferred, *starting.LIGHTEST_FIRST))
    if backend:
        chosen = f"backend: {backend} ({starting.VARIABLE} chooses another)"
        print(chosen, file=sys.stderr)
    options = {
        "dtype_policy": arguments.policy,
        "overwrite": arguments.overwrite,
        "safe_mode": not arguments.unsafe,
    }
    if arguments.output_dir is None:
        return _convert_one(arguments, options)
    return _convert_many(arguments, options)


def _check(arguments: argparse.Namespace) -> None:
    """Raise if the command line is wrong, before Keras is imported for it."""
    from keras_policies import policy_names
    from keras_policies.legacy import atomic_file

    if arguments.output_dir is None and len(arguments.paths) != 2:
        raise CommandLineError(
            f"convert takes a SOURCE and a DEST.keras, received {arguments.paths}. "
            "--output-dir DIR converts any number of models."
        )
    if arguments.output_dir is not None and arguments.verify is not None:
        raise CommandLineError("--verify is for one SOURCE, without --output-dir.")
    if arguments.jobs < 1:
        raise CommandLineError(f"--jobs {arguments.jobs}: expected 1 or more.")
    try:
        if arguments.policy is not None:
            policy_names.dtypes_of(policy_names.full_name(arguments.policy))
        if arguments.output_dir is None:
            atomic_file.check_ending(arguments.paths[1])
    except ValueError as error:
        raise CommandLineError(str(error)) from error


def _convert_one(arguments: argparse.Namespace, options: dict[str, Any]) -> int:
    """Convert a model, and print what is in it and what is left out."""
    _import_keras()
    from keras_policies.legacy.conversion import convert_model

    source, destination = arguments.paths
    options["custom_objects"] = _custom_objects(arguments.custom_objects)
    options["verify"] = arguments.verify
    converted = convert_model(source, destination, **options)
    if arguments.json:
        print(json.dumps(converted.as_dict()))
    else:
        _reports().print_conversion(converted, arguments.verify)
    return OK


def _convert_many(arguments: argparse.Namespace, options: dict[str, Any]) -> int:
    """Convert models, several at the same time, and print a table."""
    from keras_policies.legacy import folders, many

    custom_objects = functools.partial(_custom_objects, arguments.custom_objects)
    if arguments.custom_objects:  # a wrong one is told before the work begins
        _import_keras()
        custom_objects()
    sources = folders.models(arguments.paths, arguments.recursive)
    output = pathlib.Path(arguments.output_dir)
    targets = folders.destinations(arguments.paths, sources, output)
    conversions = [
        many.Conversion(source, target, options, custom_objects)
        for source, target in zip(sources, targets, strict=True)
    ]
    outcomes = many.converted(conversions, min(arguments.jobs, len(conversions)))
    if arguments.json:
        _print_json(outcomes)
    else:
        _reports().print_conversions(outcomes)
    return _report_failures(outcomes)


def _import_keras() -> None:
    """Import Keras and make it obey this package, or say what is not installed."""
    try:
        importlib.import_module("keras_policies.installed")
    except ModuleNotFoundError as error:
        raise ValueError(str(error)) from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, by default that of the process; return the exit code."""
    parsed = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = parsed.run
    try:
        return run(parsed)
    except (ValueError, TypeError) as error:
        print(f"keras-policies: {printable(str(error))}", file=sys.stderr)
        return WRONG if isinstance(error, CommandLineError) else FAILED
