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
# Characters for what is not known before the first line is printed.
WIDTHS = {"written_by": len("TF 2.3 or 2.4"), "policy": len("mixed_float16")}
WIDTHS |= {"parameters": len("parameters")}
DESCRIBED, CONVERTED = len("missing"), len("converted, 1 left out")  # results


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


class Table:
    """A table of files, whose lines are printed as soon as a file is ready.

    Args:
        todo: the tasks for the files.
        columns: keys of the details of outcomes that have a column.
    """

    def __init__(self, todo: Sequence[tasks.Task], columns: Sequence[str]) -> None:
        common, names = folders.below_common([task.path for task in todo])
        self._names = {task.path: name for task, name in zip(todo, names, strict=True)}
        named = [column.replace("_", " ") for column in columns]
        self._columns, result = columns, DESCRIBED if columns else CONVERTED
        self._headings = [f"model in {common}" if common else "model", *named, "result"]
        texts = [names, *([_given(task, key) for task in todo] for key in columns), []]
        least = [0, *(WIDTHS.get(column, 0) for column in columns), result]
        widths = [
            max(width, len(heading), *map(len, column))
            for heading, width, column in zip(self._headings, least, texts, strict=True)
        ]
        self._paths = [0, *(i for i, key in enumerate(columns, 1) if key in PATHS)]
        self._console = terminal.console(UNLIMITED)
        self._widths = terminal.widths(widths, self._console.width, self._paths)
        self._is_begun = False

    def add(self, outcome: tasks.Outcome) -> None:
        """Print the line of an outcome; a single file that failed has none."""
        if len(self._names) == 1 and outcome.problem:
            return
        if not self._is_begun:
            self._print(self._headings, "bold", "bold")
            rule = sum(self._widths) + terminal.BETWEEN * (len(self._widths) - 1)
            self._console.print(Text("─" * rule), soft_wrap=True)
            self._is_begun = True
        cells = (_cell(outcome, column) for column in self._columns)
        row = [self._names[outcome.path], *cells, _result(outcome)]
        style = STATUSES[outcome.status][2]
        self._print(row, style if "bold" in style else "", style)

    def _print(self, row: Sequence[str], style: str, last: str) -> None:
        """Print a line; `last` is the style of its last cell."""
        cells = [
            terminal.cut(cell, width) if i in self._paths else cell
            for i, (cell, width) in enumerate(zip(row, self._widths, strict=True))
        ]
        shown = [printable(cell).replace("\n", "\\n") for cell in cells]
        *first, end = (
            cell.rjust(width) if heading in NUMBERS else cell.ljust(width)
            for cell, width, heading in zip(
                shown, self._widths, self._headings, strict=True
            )
        )
        between = " " * terminal.BETWEEN
        line = Text(between.join([*first, ""]), style).append(end.rstrip(), last)
        self._console.print(line, soft_wrap=True)


def _given(task: tasks.Task, key: str) -> str:
    """Return a detail that is known before a task runs, or ""."""
    return str(getattr(task, key, ""))


def print_notes(outcomes: Iterable[tasks.Outcome]) -> None:
    """Print notes; those that differ only in the file share one line."""
    alike = collections.defaultdict(list)
    for outcome in outcomes:
        for note in _notes(outcome):
            alike[note].append(outcome.path)
    print_lines(
        f"{first}{f' and {len(others)} more' if others else ''}: {note}"
        for note, (first, *others) in alike.items()
    )


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
    """Yield the notes below the table about one file."""
    details = outcome.details
    if details.get("missing"):
        yield f"missing: {', '.join(details['missing'])}"
    for note in details.get("notes") or ():
        yield f"note: {note}"
    parts = details.get("left_out") or (), details.get("left_out_codes") or ()
    for reason, code in zip(*parts, strict=True):
        yield f"left out: {code}: {reason}"
    if details.get("not_plain"):
        yield f"not compared in plain Keras: {details['not_plain']}"


def total(outcomes: Sequence[tasks.Outcome], count: int) -> str:
    """Return one line with the number of files for each status, of `count` in all.

    Example:
        >>> found = [tasks.Outcome("a.h5", "converted", {"left_out": ("loss: 'f'",)})]
        >>> total([*found, tasks.Outcome("b.h5", "failed", {})], 3)
        '1 converted, 1 of them with parts left out; 1 failed; 1 not tried'
    """
    counts = collections.Counter(outcome.status for outcome in outcomes)
    partly = sum(bool(outcome.details.get("left_out")) for outcome in outcomes)
    words = {status: f"{counts[status]} {STATUSES[status][1]}" for status in counts}
    if partly:
        words[tasks.CONVERTED] += f", {partly} of them with parts left out"
    known = [words[status] for status in STATUSES if status in words]
    left = count - len(outcomes)
    return "; ".join([*known, f"{left} not tried"] if left else known)
