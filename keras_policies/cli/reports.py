"""Prints descriptions, conversions and errors as lines and tables."""

import collections
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from keras_policies._common import terminal
from keras_policies._common.text import one_line, printable
from keras_policies.cli import folders, tasks
from keras_policies.legacy import descriptions

if TYPE_CHECKING:
    from keras_policies.legacy.conversion import Converted

UNLIMITED = 10_000  # characters: in a pipe without COLUMNS, paths are never cut off
# Status -> text in the table, text in the total, and style.
STATUSES = {
    tasks.OPENS: ("opens", "open", "green"),
    tasks.MISSING: ("missing", "with missing classes", "yellow"),
    tasks.CONVERTED: ("converted", "converted", "green"),
    tasks.PLANNED: ("would convert", "would be converted", "green"),
    tasks.VERIFIED: ("verified", "verified", "green"),
    tasks.SKIPPED: ("skipped", "skipped", "dim"),
    tasks.KERAS_3: ("Keras 3", "of Keras 3, left alone", "dim"),
    tasks.FAILED: ("failed", "failed", "bold red"),
}
PATHS = "destination", "outputs"
NUMBERS = "parameters", "largest difference", "allowed difference"


def print_lines(lines: Iterable[str]) -> None:
    """Print lines as they are."""
    console = terminal.console()
    for line in lines:
        console.print(one_line(line), markup=False, highlight=False, soft_wrap=True)


def print_problems(problems: Iterable[tasks.Problem], is_verbose: bool) -> None:
    """Print errors to stderr; errors that differ only in the file share one line."""
    alike = collections.defaultdict(list)
    for problem in problems:
        alike[problem.code, problem.text].append(problem)
    console = terminal.console(stderr=True)
    for (code, text), (first, *others) in alike.items():
        where = first.place
        if others:
            where = f"{one_line(first.path)} and {len(others)} more: "
        start = f"keras-policies: {code}: ", "bold red"
        message = Text.assemble(start, printable(where + text))
        console.print(message, soft_wrap=True)
        if is_verbose:
            console.print(Text(printable(first.traceback)), soft_wrap=True)


def print_description(description: descriptions.ModelDescription) -> None:
    """Print lines about a model, and a table of its layers."""
    print_lines(descriptions.summary(description))
    console = terminal.console()
    console.print(descriptions.layer_table(description, console.width))


def print_conversion(converted: "Converted", verified_by: str | None) -> None:
    """Print lines about a model that was converted."""
    lines = [f"left out: {part.code}: {part}" for part in converted.left_out]
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
    """Print a table with a line for each file, and notes below it.

    `columns` are the keys of the details that have a column.
    """
    common, names = folders.below_common([outcome.path for outcome in outcomes])
    console = terminal.console(UNLIMITED)
    rows = [
        [name, *(_cell(outcome, column) for column in columns), _result(outcome)]
        for name, outcome in zip(names, outcomes, strict=True)
    ]
    named = (column.replace("_", " ") for column in columns)
    headings = [f"model in {common}" if common else "model", *named, "result"]
    paths = [0, *(i for i, name in enumerate(headings) if name in PATHS)]
    styles = [STATUSES[outcome.status][2] for outcome in outcomes]
    console.print(
        terminal.table(
            headings, rows, console.width, paths=paths, numbers=NUMBERS, styles=styles
        )
    )
    print_lines(line for outcome in outcomes for line in _notes(outcome))


def _cell(outcome: tasks.Outcome, column: str) -> str:
    value = outcome.details[column]
    if value is None:
        return "-" if column == "policy" and outcome.problem is None else ""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3g}"
    if column == "written_by":
        return descriptions.release(value).replace("TensorFlow ", "TF ")
    return str(value)


def _result(outcome: tasks.Outcome) -> str:
    not_converted = len(outcome.details.get("left_out") or ())
    return STATUSES[outcome.status][0] + (
        f", {not_converted} left out" if not_converted else ""
    )


def _notes(outcome: tasks.Outcome) -> Iterator[str]:
    """Yield the lines below the table about one file."""
    details = outcome.details
    if details.get("missing"):
        yield f"{outcome.path}: missing: {', '.join(details['missing'])}"
    for note in details.get("notes") or ():
        yield f"{outcome.path}: note: {note}"
    parts = details.get("left_out") or (), details.get("left_out_codes") or ()
    for reason, code in zip(*parts, strict=True):
        yield f"{outcome.path}: left out: {code}: {reason}"
    if details.get("not_plain"):
        yield f"{outcome.path}: not compared in plain Keras: {details['not_plain']}"


def total(outcomes: Sequence[tasks.Outcome]) -> str:
    """Return one line with the number of files for each status.

    Example:
        >>> found = [tasks.Outcome("a.h5", "converted", {"left_out": ("loss: 'f'",)})]
        >>> total([*found, tasks.Outcome("b.h5", "failed", {})])
        '1 converted, 1 of them with parts left out; 1 failed'
    """
    counts = collections.Counter(outcome.status for outcome in outcomes)
    partly = sum(bool(outcome.details.get("left_out")) for outcome in outcomes)
    words = {status: f"{counts[status]} {STATUSES[status][1]}" for status in counts}
    if partly:
        words[tasks.CONVERTED] += f", {partly} of them with parts left out"
    return "; ".join(words[status] for status in STATUSES if status in words)
