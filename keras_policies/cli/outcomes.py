"""Prints the outcome for each file of a command at once, and the rest at the end."""

import argparse
import importlib
import json
import sys
import types
from collections.abc import Callable, Sequence

from keras_policies.cli import tasks
from keras_policies.cli.exit_codes import FAILED, OK, PARTLY
from keras_policies.cli.tasks import Outcome, Task


def shown(
    arguments: argparse.Namespace, todo: Sequence[Task], columns: Sequence[str]
) -> Callable[[Outcome], None]:
    """Return the function that prints an outcome as soon as it is ready."""
    if arguments.json:
        return lambda outcome: print(json.dumps(outcome.as_dict()), flush=True)
    if arguments.quiet:
        return lambda outcome: None
    shown: Callable[[Outcome], None] = _reports().Table(todo, columns).add
    return shown


def ended(
    arguments: argparse.Namespace,
    outcomes: Sequence[Outcome],
    count: int,
    is_one: bool,
) -> int:
    """Print notes, the total, and errors to stderr; return the exit code.

    `count` is the number of models. With `is_one`, the user named a single model; a
    Keras 3 file is then an error.
    """
    is_text = not (arguments.json or arguments.quiet)
    if is_text:
        _reports().print_notes(outcomes)
    failed = (outcome for outcome in outcomes if outcome.has_failed or is_one)
    problems = [outcome.problem for outcome in failed if outcome.problem]
    if problems:
        sys.stdout.flush()
        _reports().print_problems(problems, arguments.verbose)
    if count > 1 and is_text:
        _reports().print_lines([_reports().total(outcomes, count)])
    is_strict = vars(arguments).get("strict")
    is_partly = any(
        outcome.status == tasks.MISSING
        or (is_strict and outcome.details.get("left_out"))
        for outcome in outcomes
    )
    if problems:
        return FAILED
    return PARTLY if is_partly else OK


def _reports() -> types.ModuleType:
    """Import and return the module that prints with rich, which takes time."""
    return importlib.import_module("keras_policies.cli.reports")
