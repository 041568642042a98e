"""The command line: `keras-policies inspect` and `keras-policies convert`.

Exit codes: 0, done; 1, the file could not be read, converted or written, with the
reason on stderr; 2, the command line was wrong (an unknown policy, an object that
cannot be imported, a destination that is no `.keras` file). `inspect` ends with 3 if a
class or a function is missing that the model needs.
"""

import argparse
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from keras_policies import terminal
from keras_policies.loss_scale import in_short
from keras_policies.version import __version__

if TYPE_CHECKING:
    from keras_policies.legacy.inspection import ModelDescription

OK, FAILED, WRONG, MISSING = 0, 1, 2, 3
MODEL_FILE = "a SavedModel folder, .h5 or .keras"

EXAMPLES = """\
examples:
  keras-policies inspect model_of_2020
  keras-policies convert model_of_2020 model.keras
  keras-policies convert old.h5 new.keras --policy float32 \\
      --custom-objects my_layers:Attention --verify outputs.npz

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
        help="say what is in a file, without building anything",
        epilog="example: keras-policies inspect model_of_2020 --json",
    )
    inspect.add_argument("path", metavar="PATH", help=MODEL_FILE)
    inspect.add_argument("--json", action="store_true", help="as JSON, for scripts")
    inspect.set_defaults(run=_inspect)

    convert = commands.add_parser(
        "convert",
        help="write a .keras file that stock Keras 3 opens",
        epilog="example: keras-policies convert model_of_2020 model.keras",
    )
    convert.add_argument("source", metavar="SOURCE", help=MODEL_FILE)
    convert.add_argument("destination", metavar="DEST.keras", help="the file to write")
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
        "--overwrite", action="store_true", help="replace DEST.keras if it exists"
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


def _custom_objects(texts: Sequence[str]) -> dict[str, Any]:
    """Return `{name: object}` for a list of `module:name` and `layer=module:name`."""
    if texts:  # Python has put the folder of the command there, not the user's
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


def _check(arguments: argparse.Namespace) -> None:
    """Raise if the policy or the destination on the command line is wrong."""
    from keras_policies.legacy import conversion
    from keras_policies.legacy.plan import policies

    try:
        policies.checked_policy(arguments.policy)
        conversion.check_ending(arguments.destination)
    except (TypeError, ValueError) as error:
        raise CommandLineError(str(error)) from error


def _table(description: "ModelDescription") -> Table:
    """Return a table of the layers."""
    table = Table(title=escape(f"{description.class_name} {description.name!r}"))
    for heading in "layer", "class", "policy", "dtypes":
        table.add_column(heading, overflow="fold")
    table.add_column("parameters", justify="right", overflow="fold")
    table.add_column("becomes", overflow="fold")
    for layer in description.layers:
        dtypes = dict.fromkeys((layer.compute_dtype, layer.variable_dtype))
        table.add_row(
            escape(layer.path),
            escape(layer.class_name),
            escape(layer.policy or "-"),
            ", ".join(dtype or "-" for dtype in dtypes),
            f"{layer.parameters:,}",
            escape(layer.becomes) if layer.becomes else "[bold]missing[/bold]",
        )
    return table


def _summary(description: "ModelDescription") -> Iterator[str]:
    """Yield lines about the model as a whole."""
    yield f"{description.path}: {description.format}, {description.written_by}"
    if not description.records_policies:
        yield "policy: not recorded: this release wrote only the dtypes of variables"
    else:
        own = description.policy or "none recorded"
        yield f"policy: {own}, becomes {description.becomes_policy or 'the global one'}"
    if description.optimizer is None:
        yield "optimizer: none in the file"
    elif not description.iterations and not description.slots:
        yield f"optimizer: {description.optimizer}, not trained, or without its state"
    else:
        yield (
            f"optimizer: {description.optimizer}, {description.slots} slots, "
            f"{description.iterations} iterations"
        )
    if description.loss_scale is not None:
        kept = "kept" if description.keeps_loss_scale else "the policy's: dropped"
        yield f"loss scale: {in_short(description.loss_scale)} ({kept})"
    yield f"parameters: {description.parameters:,}"
    if description.missing:
        yield f"missing: {', '.join(description.missing)} (pass --custom-objects)"
    yield from (f"note: {note}" for note in description.notes)


def _inspect(arguments: argparse.Namespace, console: Console) -> int:
    """Describe a file; return the exit code."""
    from keras_policies.legacy.inspection import inspect_model

    description = inspect_model(arguments.path)
    if arguments.json:
        print(json.dumps(description.as_dict(), indent=2))
    else:
        _print_lines(_summary(description), console)
        if description.layers:
            console.print(_table(description))
        else:
            console.print("subclassed: its layers come from your code")
    return MISSING if description.missing else OK


def _convert(arguments: argparse.Namespace, console: Console) -> int:
    """Convert a file; return the exit code."""
    from keras_policies.legacy.conversion import convert_model

    _check(arguments)
    converted = convert_model(
        arguments.source,
        arguments.destination,
        custom_objects=_custom_objects(arguments.custom_objects),
        dtype_policy=arguments.policy,
        overwrite=arguments.overwrite,
        safe_mode=not arguments.unsafe,
        verify=arguments.verify,
    )
    lines = [f"left out: {reason}" for reason in converted.left_out]
    if converted.largest_difference is not None:
        lines.append(
            f"verified: largest difference {converted.largest_difference:.3g}, allowed "
            f"{converted.allowed_difference:.3g}, from {arguments.verify}"
        )
    lines.append(f"written: {converted.destination}")
    _print_lines((*_summary(converted.source), *lines), console)
    return OK


def _print_lines(lines: Iterable[str], console: Console) -> None:
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, by default that of the process; return the exit code."""
    parsed = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace, Console], int] = parsed.run
    try:
        return run(parsed, terminal.console())
    except (ValueError, TypeError) as error:
        print(f"keras-policies: {error}", file=sys.stderr)
        return WRONG if isinstance(error, CommandLineError) else FAILED
