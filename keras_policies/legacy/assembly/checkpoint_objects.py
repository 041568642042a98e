"""Finds the object of a checkpoint that is the model."""

from collections.abc import Callable, Mapping

from keras_policies.legacy.assembly.targets import Pairs
from keras_policies.legacy.assembly.weights import ByLayer
from keras_policies.legacy.base.errors import LegacyModelError, LimitError

Fitted = tuple[Pairs, list[str]]  # the strings say what is not loaded


def fitting(
    objects: Mapping[str, ByLayer],
    meant: str | None,
    fit: Callable[[ByLayer], Fitted],
) -> tuple[str, Fitted]:
    """Return the name of the one object that fits the model, and what `fit` returns.

    `objects` are the weights of the candidates by name. If none fits, raise the error
    of the object `meant`, or one that lists all.
    """
    fitted: dict[frozenset[int], tuple[str, Fitted]] = {}
    problems: dict[str, LegacyModelError] = {}
    for name, by_layer in objects.items():
        try:
            pairs, rest = fit(by_layer)
        except LimitError:
            raise
        except LegacyModelError as error:
            problems[name] = error
        else:  # the root and an object in it may lead to the same variables
            numbers = frozenset(w.number for _, w in pairs if w.number is not None)
            fitted.setdefault(numbers, (name, (pairs, rest)))
    if len(fitted) == 1:
        return next(iter(fitted.values()))
    if meant is not None and not fitted:
        raise problems[meant]
    names = [name for name, _ in fitted.values()] or sorted(filter(None, objects))
    reason = f"several objects of the checkpoint fit the model: {names}."
    if not fitted:
        reason = f"no object of the checkpoint fits the model: {names}."
    raise LegacyModelError(
        reason, f"Pass the one you mean, as root={names[-1]!r}.", code="KP109"
    )
