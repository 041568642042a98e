"""Prints the result for each file of a command at once, and the rest at the end."""

import argparse
import importlib
import json
import pathlib
import sys
import types
from collections.abc import Callable, Sequence

from keras_policies.cli import tasks
from keras_policies.cli.exit_codes import FAILED, OK, PARTLY
from keras_policies.cli.tasks import Problem, Result, Task
from keras_policies.legacy.base.outcomes import LOSING
from keras_policies.legacy.descriptions import ModelDescription

FAILURES = {tasks.FAILED, tasks.NOT_RECORDED}
TOLD = {*FAILURES, tasks.OPENS_IF}  # on stderr
STRICT = {outcome.value for outcome in LOSING}


def shown(
    arguments: argparse.Namespace, todo: Sequence[Task], columns: Sequence[str]
) -> Callable[[Result], None]:
    """Return the function that prints a result as soon as it is ready."""
    if arguments.json:
        return lambda result: print(json.dumps(result.as_dict()), flush=True)
    if arguments.quiet:
        return lambda result: None
    shown: Callable[[Result], None] = _reports().Table(todo, columns).add
    return shown


def ended(
    arguments: argparse.Namespace,
    results: Sequence[Result],
    count: int,
    is_one: bool,
) -> int:
    """Print notes, errors to stderr, and the counts; return the exit code.

    `count` is the number of models. With `is_one`, the user named a single model; a
    Keras 3 file is then an error.
    """
    is_text = not (arguments.json or arguments.quiet)
    if is_text:
        _reports().print_notes(results)
    told = (r for r in results if r.status in TOLD or is_one)
    problems = [result.problem for result in told if result.problem]
    if problems:
        sys.stdout.flush()
        _reports().print_problems(problems, arguments.verbose)
    if count > 1 and is_text:
        _reports().print_counts(_reports().counts(results, count))
    if report := vars(arguments).get("report"):
        written = importlib.import_module("keras_policies.cli.report_files")
        written.write(pathlib.Path(report), results, count)
    statuses = {result.status for result in results}
    if not statuses.isdisjoint(FAILURES) or (is_one and tasks.KERAS_3 in statuses):
        return FAILED
    is_strict = vars(arguments).get("strict")
    outcomes = {result.details.get("outcome") for result in results}
    is_partly = is_strict and not STRICT.isdisjoint(outcomes)
    return PARTLY if is_partly or tasks.OPENS_IF in statuses else OK


def described(arguments: argparse.Namespace, description: ModelDescription) -> int:
    """Print the description of one model; return the exit code."""
    _reports().print_description(description)
    if description.problem is None:
        return OK
    problem = Problem(description.path, description.problem, str(description.code))
    sys.stdout.flush()
    _reports().print_problems([problem], arguments.verbose)
    return PARTLY if description.opens_if else FAILED


def _reports() -> types.ModuleType:
    """Import and return the module that prints with rich, which takes time."""
    return importlib.import_module("keras_policies.cli.reports")
