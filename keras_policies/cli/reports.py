"""Prints descriptions, conversions and errors as lines and tables."""

import collections
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from keras_policies._common import terminal
from keras_policies._common.text import one_line, printable
from keras_policies.cli import folders, tasks
from keras_policies.legacy import descriptions
from keras_policies.legacy.base.outcomes import LeftOut, Outcome

if TYPE_CHECKING:
    from keras_policies.legacy.conversion import Converted

UNLIMITED = 10_000  # characters: in a pipe without COLUMNS, paths are never cut off


class Row(NamedTuple):
    """How results of one kind are shown."""

    text: str  # in the table of files and in that of counts
    style: str
    code: str = ""  # what `explain` explains
    remedy: str = ""


def _row(outcome: Outcome, style: str) -> Row:
    return Row(outcome.value, style, outcome.code, outcome.remedy)


# The kinds of results, in the order in which they are counted.
KINDS = {
    Outcome.COMPLETE.value: _row(Outcome.COMPLETE, "green"),
    Outcome.REBUILT.value: _row(Outcome.REBUILT, "cyan"),
    Outcome.TRAINS_DIFFERENTLY.value: _row(Outcome.TRAINS_DIFFERENTLY, "yellow"),
    Outcome.LOST.value: _row(Outcome.LOST, "magenta"),
    Outcome.NEW_WEIGHTS.value: _row(Outcome.NEW_WEIGHTS, "bold magenta"),
    tasks.OPENS: Row("opens", "green"),
    tasks.CONVERTED: Row("converted", "green"),
    tasks.VERIFIED: Row("verified", "green"),
    tasks.NOT_RECORDED: Row("no recording", "yellow", "KP503", "Record its outputs."),
    tasks.PLANNED: Row("would convert", "green"),
    tasks.OPENS_IF: Row("opens if …", "bold yellow", "", "Do what the error says."),
    tasks.SKIPPED: Row("skipped", "dim", "", "The new file exists."),
    tasks.KERAS_3: Row("Keras 3", "dim", "KP103", "There is nothing to convert."),
    tasks.PASSED_OVER: Row("passed over", "dim", "", "Read the line about each."),
    tasks.FAILED: Row("failed", "bold red", "", "Read the errors."),
    "not tried": Row("not tried", "dim"),
}
PATHS = "destination", "outputs"
NUMBERS = "parameters", "largest difference", "allowed difference"
# Characters for what is not known before the first line is printed.
WIDTHS = {"written_by": len("TF 2.3 or 2.4"), "policy": len("mixed_float16")}
WIDTHS |= {"parameters": len("parameters")}
RESULT = max(len(row.text) for row in KINDS.values())


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
    lines = [*descriptions.part_lines(converted.parts)]
    if converted.largest_difference is not None:
        lines.append(
            f"verified: largest difference {converted.largest_difference:.3g}, allowed "
            f"{converted.allowed_difference:.3g}, from {verified_by}"
        )
    lines += [converted.check, converted.plain, f"written: {converted.destination}"]
    if converted.texts is not None:
        lines.append(f"written: {converted.texts}, which reads its texts")
    lines.append(f"{converted.outcome.value}: {converted.outcome.remedy}")
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
        self._columns = columns
        self._headings = [f"model in {common}" if common else "model", *named, "result"]
        texts = [names, *([_given(task, key) for task in todo] for key in columns), []]
        least = [0, *(WIDTHS.get(column, 0) for column in columns), RESULT]
        widths = [
            max(width, len(heading), *map(len, column))
            for heading, width, column in zip(self._headings, least, texts, strict=True)
        ]
        self._paths = [0, *(i for i, key in enumerate(columns, 1) if key in PATHS)]
        self._console = terminal.console(UNLIMITED)
        self._widths = terminal.widths(widths, self._console.width, self._paths)
        self._is_begun = False

    def add(self, outcome: tasks.Result) -> None:
        """Print the line of a result; a single file that failed has none."""
        is_model = outcome.status != tasks.PASSED_OVER
        if not is_model or (len(self._names) == 1 and outcome.problem):
            return
        if not self._is_begun:
            self._print(self._headings, "bold", "bold")
            rule = sum(self._widths) + terminal.BETWEEN * (len(self._widths) - 1)
            self._console.print(Text("─" * rule), soft_wrap=True)
            self._is_begun = True
        cells = (_cell(outcome, column) for column in self._columns)
        text, style, *_ = KINDS[outcome.kind]
        row = [self._names[outcome.path], *cells, text]
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


def print_notes(outcomes: Iterable[tasks.Result]) -> None:
    """Print notes; those that differ only in the file share one line."""
    alike = collections.defaultdict(list)
    for outcome in outcomes:
        for note in notes(outcome):
            alike[note].append(outcome.path)
    print_lines(
        f"{first}{f' and {len(others)} more' if others else ''}: {note}"
        for note, (first, *others) in alike.items()
    )


def _cell(outcome: tasks.Result, column: str) -> str:
    value = outcome.details[column]
    if value is None:
        return "-" if column == "policy" and outcome.details["format"] else ""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3g}"
    if column == "written_by":
        return descriptions.release(value).replace("TensorFlow ", "TF ")
    return str(value)


def notes(outcome: tasks.Result) -> Iterator[str]:
    """Yield the notes below the table about one file."""
    details = outcome.details
    if outcome.status == tasks.PASSED_OVER and outcome.problem:
        yield f"passed over: {outcome.problem.text}"
    for note in details.get("notes") or ():
        yield f"note: {note}"
    yield from descriptions.part_lines(
        LeftOut(part["text"], part["code"], Outcome(part["outcome"]))
        for part in details.get("parts") or ()
    )
    if details.get("not_plain"):
        yield f"not compared in plain Keras: {details['not_plain']}"


def counts(results: Sequence[tasks.Result], count: int) -> dict[str, int]:
    """Return `{kind: number of files}`, of `count` files in all.

    Example:
        >>> found = [tasks.Result("a.h5", "converted", {"outcome": "rebuilt"})]
        >>> counts([*found, tasks.Result("b.h5", "failed", {})], 3)
        {'rebuilt': 1, 'failed': 1, 'not tried': 1}
    """
    found = collections.Counter(result.kind for result in results)
    found["not tried"] = count - len(results)
    return {kind: found[kind] for kind in KINDS if found[kind]}


def print_counts(counted: Mapping[str, int]) -> None:
    """Print a table of the numbers of files, each with what to do."""
    console = terminal.console()
    rows = [
        (str(number), KINDS[kind].text, KINDS[kind].code, KINDS[kind].remedy)
        for kind, number in counted.items()
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for kind, (number, text, *rest) in zip(counted, rows, strict=True):
        line = Text(f"{number.rjust(widths[0])}  ")
        line.append(text.ljust(widths[1]), KINDS[kind].style)
        cells = map(str.ljust, rest, widths[2:])
        line.append(f"  {'  '.join(cells)}")
        line.rstrip()
        console.print(line, soft_wrap=True)
