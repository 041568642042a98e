"""Plans a file until a plan can be used: to build its model, or to describe it."""

import contextlib
import dataclasses
from collections.abc import Callable
from typing import TypeVar

from keras_policies._common.types import PolicyLike
from keras_policies.legacy.base import configs, errors, hints
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import LegacyModel
from keras_policies.legacy.base.traced_functions import SERVING
from keras_policies.legacy.plan import environment, plan
from keras_policies.legacy.plan.plan import Plan
from keras_policies.legacy.plan.report import Options

OTHERS = 5  # the most signatures that an error names
DISPROVED = "KP501"  # the code of an error for outputs unlike those of the graph
T = TypeVar("T")


def first(
    legacy: LegacyModel,
    policy: PolicyLike | None,
    options: Options,
    use: Callable[[Plan], T],
    *,
    compile: bool = True,
) -> T:
    """Return what `use` returns for the first plan with which it raises no error.

    If a config, weights or outputs show that a class in the file only shares its name
    with a Keras class, all further attempts treat it as missing: the file does not
    record whose class it is, and often only the outputs differ. The last attempt
    rebuilds a model that lists its layers from its traced function, because a config
    does not say which masks its missing classes create or change.
    """
    may_rebuild = options.reconstructs and legacy.traced is not None
    has_function = configs.is_graph(legacy.config) and options.signature is None
    # Whether the model becomes its function; the first is tried next.
    attempts = [False, True] if may_rebuild and has_function else [False]
    namesakes, is_disproved = frozenset[str](), True
    problems: list[tuple[bool, LegacyModelError]] = []
    while attempts:
        attempt = dataclasses.replace(
            options,
            by_function=attempts[0],
            namesakes=namesakes,
            is_disproved=is_disproved,
        )
        try:
            planned = plan.make(legacy, policy, attempt, compile)
            if attempts == [False, True] and planned.loses_masks:
                attempts = [True] if problems else [True, False]
                continue
            planned.raise_if_missing()
            environment.check(planned)
            return use(planned)
        except LegacyModelError as error:
            problems.append((attempt.by_function, error))
            if not may_rebuild or isinstance(error, errors.LimitError):
                break
            if error.suspects <= namesakes:
                attempts = attempts[1:]
            namesakes |= error.suspects
            is_disproved &= error.code == DISPROVED
    # Errors about the config say more than those about the function.
    _, worst = min(problems, key=lambda problem: problem[0])
    problem = _about_signature(worst, legacy, options)
    if not (problem.hint or isinstance(problem, errors.LimitError)):
        problem.hint = str(hints.load_weights_into_code(legacy.path))
    if serving := _about_serving(problem, legacy, options):
        problem.hint, problem.opens_if = problem.hint + serving, True
    raise problem from problem.__cause__


def _about_serving(
    problem: LegacyModelError, legacy: LegacyModel, options: Options
) -> str:
    """Return a sentence that offers the serving signature where that opens, or ""."""
    names = () if legacy.traced is None else legacy.traced.signatures
    is_due = options.reconstructs and options.signature is None
    if not is_due or SERVING not in names or isinstance(problem, errors.LimitError):
        return ""
    way = None
    with contextlib.suppress(errors.LimitError):  # the first error says more
        way = _way(SERVING, legacy, options, (options.keeps_texts,))
    return f" The function that the model served opens: pass {way}." if way else ""


def _about_signature(
    problem: LegacyModelError, legacy: LegacyModel, options: Options
) -> LegacyModelError:
    """Return an error; if it is about the model, it offers signatures that open."""
    names, signature = [*problem.signatures], options.signature
    if problem.layer == "" and legacy.traced is not None:
        function = "the model's own function" if signature is None else "the signature"
        name = "" if signature is None else f" {signature!r}"
        problem.layer, problem.reason = None, f"{function}{name}: {problem.reason}"
        others = {*legacy.traced.signatures} - {signature or SERVING}
        names += sorted(others, key=lambda name: ("greedy" not in name, name))
    if names and not problem.hint:
        ways = [way for name in names[:OTHERS] if (way := _way(name, legacy, options))]
        problem.opens_if = bool(ways)
        problem.hint = (
            f"Pass {' or '.join(ways)} to open another function of the file."
            if ways
            else "Its other signatures do not open either. "
            f"{hints.load_weights_into_code(legacy.path)}"
        )
    return problem


def _way(
    name: str,
    legacy: LegacyModel,
    options: Options,
    texts: tuple[bool, ...] = (True, False),
) -> str | None:
    """Return the arguments with which a signature can be planned, or None.

    `texts` are the values of `Options.keeps_texts` to try.
    """
    for keeps_texts in texts:
        attempt = dataclasses.replace(
            options, signature=name, keeps_texts=keeps_texts, by_function=False
        )
        with errors.attempt(LegacyModelError):
            planned = plan.make(legacy, None, attempt)
            planned.raise_if_missing()
            environment.check(planned)
            numbers = "" if keeps_texts else f" and {hints.NUMBERS}"
            return f"{hints.signature(name)}{numbers}"
    return None
