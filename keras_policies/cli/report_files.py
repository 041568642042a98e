"""Writes the results of a command to a file: `.json` for programs, `.md` for people."""

import json
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence

from keras_policies._common.text import one_line
from keras_policies.cli import reports
from keras_policies.cli.commands import CommandLineError
from keras_policies.cli.tasks import Result
from keras_policies.legacy import atomic_file

ENDINGS = ".json", ".md"
ESCAPED = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_{}[]<>#|"})


def check(path: str) -> None:
    """Raise if a report cannot be written, before anything else is done."""
    if not path.endswith(ENDINGS):
        reason = "expected a name that ends in '.json' or '.md'."
        raise CommandLineError(f"--report {path!r}: {reason}")
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path) or "."):
        why = "it is a folder." if os.path.isdir(path) else "there is no such folder."
        raise CommandLineError(f"--report {path!r}: {why}")


def write(path: pathlib.Path, results: Sequence[Result], count: int) -> None:
    """Write the counts by kind, and all results; replace the file if it exists."""
    counted = reports.counts(results, count)
    if path.suffix == ENDINGS[0]:
        rows = [result.as_dict() for result in results]
        text = json.dumps({"counts": counted, "models": rows}, indent=2) + "\n"
    else:
        text = "\n".join(_markdown(counted, results)) + "\n"
    with atomic_file.writing(path, overwrite=True) as new:
        new.write_bytes(text.encode("utf-8", "backslashreplace"))


def _markdown(counted: dict[str, int], results: Sequence[Result]) -> Iterator[str]:
    yield "# Models\n"
    rows = [(str(number), *_about(kind)) for kind, number in counted.items()]
    yield from _table(("models", "result", "code", "what to do"), rows)
    yield "\n## Each model\n"
    yield from _table(("model", "result", "details"), map(_row, results))


def _about(kind: str) -> tuple[str, str, str]:
    row = reports.KINDS[kind]
    return row.text, row.code, row.remedy


def _row(result: Result) -> tuple[str, str, str]:
    problem = result.problem
    told = [f"{problem.code}: {problem.text}"] if problem else []
    if not problem:
        told += [*reports.notes(result)]
    return result.path, reports.KINDS[result.kind].text, "; ".join(told)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield f"|{'---|' * len(headings)}"
    for row in rows:
        cells = (one_line(cell).translate(ESCAPED) for cell in row)
        yield f"| {' | '.join(cells)} |"
