"""What the command line prints of descriptions and conversions: lines and tables."""

import collections
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import rich.box
from rich.table import Table

from keras_policies._common import terminal
from keras_policies._common.terminal import escape
from keras_policies._common.text import printable
from keras_policies.cli import folders, tasks
from keras_policies.legacy import descriptions

if TYPE_CHECKING:
    from keras_policies.legacy.conversion import Converted

# Widths in characters. In a pipe without COLUMNS, paths are never cut.
UNLIMITED, LEAST = 10_000, 12
# Status -> what the table says, and what the total says.
STATUSES = {
    tasks.OPENS: ("opens", "open"),
    tasks.MISSING: ("missing", "with missing classes"),
    tasks.CONVERTED: ("converted", "converted"),
    tasks.PLANNED: ("would convert", "would be converted"),
    tasks.VERIFIED: ("verified", "verified"),
    tasks.SKIPPED: ("skipped", "skipped"),
    tasks.KERAS_3: ("Keras 3", "of Keras 3, left alone"),
    tasks.FAILED: ("failed", "failed"),
}


def print_lines(lines: Iterable[str]) -> None:
    """Print lines as they are."""
    console = terminal.console()
    for line in lines:
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def print_description(description: descriptions.ModelDescription) -> None:
    """Print lines about a model, and a table of its layers."""
    print_lines(descriptions.summary(description))
    terminal.console().print(descriptions.layer_table(description))


def print_conversion(converted: "Converted", verified_by: str | None) -> None:
    """Print lines about a model that was converted."""
    lines = [f"left out: {reason}" for reason in converted.left_out]
    if converted.largest_difference is not None:
        lines.append(
            f"verified: largest difference {converted.largest_difference:.3g}, allowed "
            f"{converted.allowed_difference:.3g}, from {verified_by}"
        )
    lines += [converted.check, converted.plain, f"written: {converted.destination}"]
    if converted.texts is not None:
        lines.append(f"written: {converted.texts}, which reads its texts")
    print_lines((*descriptions.summary(converted.source), *lines))


def print_outcomes(outcomes: Sequence[tasks.Outcome], columns: Sequence[str]) -> None:
    """Print a table with a line for each file, and below it what was left out.

    Args:
        outcomes: of the files.
        columns: the keys of what was found that have a column.
    """
    common, names = folders.below_common([outcome.path for outcome in outcomes])
    console = terminal.console(UNLIMITED)
    rows = [
        [name, *(_cell(outcome, column) for column in columns), _result(outcome)]
        for name, outcome in zip(names, outcomes, strict=True)
    ]
    headings = [f"model in {common}" if common else "model", *columns, "result"]
    console.print(_files(headings, rows, console.width))
    print_lines(line for outcome in outcomes for line in _notes(outcome))


def _cell(outcome: tasks.Outcome, column: str) -> str:
    value = outcome.details[column]
    if value is None:
        return "-" if column == "policy" and outcome.error is None else ""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value).replace("TensorFlow ", "TF ")


def _result(outcome: tasks.Outcome) -> str:
    not_converted = len(outcome.details.get("left_out") or ())
    return STATUSES[outcome.status][0] + (
        f", {not_converted} left out" if not_converted else ""
    )


def _notes(outcome: tasks.Outcome) -> Iterator[str]:
    """Yield the lines below the table that belong to a row."""
    details = outcome.details
    if details.get("missing"):
        yield f"{outcome.path}: missing: {', '.join(details['missing'])}"
    for note in details.get("notes") or ():
        yield f"{outcome.path}: note: {note}"
    for reason in details.get("left_out") or ():
        yield f"{outcome.path}: left out: {reason}"
    if details.get("not_plain"):
        yield f"{outcome.path}: not compared in plain Keras: {details['not_plain']}"


def total(outcomes: Sequence[tasks.Outcome]) -> str:
    """Return how many files ended how, in one line.

    Example:
        >>> found = [tasks.Outcome("a.h5", "converted", {"left_out": ("loss: 'f'",)})]
        >>> total([*found, tasks.Outcome("b.h5", "failed", {}, "b.h5: corrupt.")])
        '1 converted, 1 of them with parts left out; 1 failed'
    """
    counts = collections.Counter(outcome.status for outcome in outcomes)
    partly = sum(bool(outcome.details.get("left_out")) for outcome in outcomes)
    words = {status: f"{counts[status]} {STATUSES[status][1]}" for status in counts}
    if partly:
        words[tasks.CONVERTED] += f", {partly} of them with parts left out"
    return "; ".join(words[status] for status in STATUSES if status in words)


def _files(headings: Sequence[str], rows: list[list[str]], width: int) -> Table:
    """Return a table of `width` characters, whose paths are cut in their middle."""
    paths = [i for i, name in enumerate(headings) if name in PATHS or not i]
    cells = [headings, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headings))]
    used = sum(w for i, w in enumerate(widths) if i not in paths)
    remaining = width - used - BETWEEN * (len(headings) - 1)
    share = max(LEAST, remaining // len(paths))
    table = Table(
        box=rich.box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for i, heading in enumerate(headings):
        named = heading.replace("_", " ")
        cut = _cut(heading, share) if not i else named
        justify = "right" if heading in NUMBERS else "left"
        table.add_column(escape(cut), justify=justify, no_wrap=True)
    for row in rows:
        shown = (_cut(c, share) if i in paths else c for i, c in enumerate(row))
        table.add_row(*map(escape, shown))
    return table


PATHS = "destination", "outputs"
NUMBERS = "parameters", "largest_difference", "allowed_difference"
BETWEEN = 2  # characters between two columns


def _cut(text: str, width: int) -> str:
    """Return a text of at most `width` characters, cut in its middle.

    Example:
        >>> _cut("2.4.4/func_conv_fixed/model.h5", 20)
        '2.4.4/f…xed/model.h5'
    """
    if len(text) <= width:
        return text
    head = (width - 1) * 2 // 5
    return f"{text[:head]}…{text[head + 1 - width :]}"
