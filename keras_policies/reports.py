"""What the command line prints of descriptions and conversions: lines and tables."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from keras_policies import terminal
from keras_policies.annotations import Config
from keras_policies.legacy.inspection import ModelDescription
from keras_policies.loss_scale import in_short
from keras_policies.printable import printable
from keras_policies.terminal import escape

if TYPE_CHECKING:
    from keras_policies.legacy.conversion import Converted
    from keras_policies.legacy.many import Outcome

# Widths in characters: in a pipe paths are never cut; what is in the way always is,
# since inspecting a file by itself, and stderr, say it in full.
UNLIMITED, LONGEST = 10_000, 100


def print_lines(lines: Iterable[str]) -> None:
    """Print lines as they are."""
    console = terminal.console()
    for line in lines:
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def print_description(description: ModelDescription) -> None:
    """Print lines about a model, and a table of its layers."""
    print_lines(summary(description))
    if description.layers:
        terminal.console().print(layers_table(description))
    else:
        print_lines(["subclassed: its layers come from your code"])


def print_conversion(converted: "Converted", verified_by: str | None) -> None:
    """Print lines about a model that was converted."""
    lines = [f"left out: {reason}" for reason in converted.left_out]
    if converted.largest_difference is not None:
        lines.append(
            f"verified: largest difference {converted.largest_difference:.3g}, allowed "
            f"{converted.allowed_difference:.3g}, from {verified_by}"
        )
    lines.append(f"written: {converted.destination}")
    print_lines((*summary(converted.source), *lines))


def print_descriptions(outcomes: Sequence["Outcome"]) -> None:
    """Print a table with a line for each file that was inspected."""
    headings = "model", "written by", "policy", "parameters", "in the way"
    rows = [(outcome.path, *_described(outcome)) for outcome in outcomes]
    _print_files(headings, rows)


def _described(outcome: "Outcome") -> tuple[str, str, str, str]:
    found = outcome.found
    if found is None:
        return "", "", "", reason(outcome)
    written_by = f"{found['written_by']}, {found['format']}"
    parameters = f"{found['parameters']:,}"
    return written_by, found["policy"] or "-", parameters, _in_the_way(found)


def _in_the_way(found: Config) -> str:
    missing = [f"missing: {', '.join(found['missing'])}"] if found["missing"] else []
    return "; ".join([*missing, *found["notes"]]).replace("\n", " ")


def print_conversions(outcomes: Sequence["Outcome"]) -> None:
    """Print a table with a line for each file that was to be converted."""
    rows = [(outcome.path, *_converted(outcome)) for outcome in outcomes]
    _print_files(("model", "written", "left out, or in the way"), rows)


def _converted(outcome: "Outcome") -> tuple[str, str]:
    if outcome.found is None:
        return "", reason(outcome)
    return outcome.found["destination"], "; ".join(outcome.found["left_out"])


def reason(outcome: "Outcome") -> str:
    """Return why nothing was found or written, in one line, without the path."""
    text = str(outcome.error).removeprefix(f"{outcome.path}: ")
    return " ".join(text.split())


def _print_files(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table()
    for heading in headings[:-1]:
        justify = "right" if heading == "parameters" else "left"
        table.add_column(heading, justify=justify, no_wrap=True, overflow="ellipsis")
    table.add_column(headings[-1], no_wrap=True, overflow="ellipsis", max_width=LONGEST)
    for row in rows:
        table.add_row(*map(escape, row))
    terminal.console(UNLIMITED).print(table)


def layers_table(description: ModelDescription) -> Table:
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


def summary(description: ModelDescription) -> Iterator[str]:
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
