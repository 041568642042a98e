"""The traces of a layer: which one to follow, and the structure of its arguments."""

from collections.abc import Iterator, Sequence
from typing import Any

from keras_policies.legacy.base.recorded import Nest, Spec, Trace
from keras_policies.legacy.plan.lost.steps import Argument, Held, Known, Result


def specs(nest: Nest) -> list[Spec]:
    """Return the specs in a nest, those of dicts in the order of sorted keys."""
    if isinstance(nest, Spec):
        return [nest]
    if isinstance(nest, dict):
        return [spec for key in sorted(nest) for spec in specs(nest[key])]
    if isinstance(nest, list | tuple):
        return [spec for item in nest for spec in specs(item)]
    return []


def filled(nest: Nest, values: Iterator[Any]) -> Nest:
    """Return a nest with the next value in the place of each spec; lists for tuples."""
    if isinstance(nest, Spec):
        return next(values)
    if isinstance(nest, dict):
        return {key: filled(nest[key], values) for key in sorted(nest)}
    if isinstance(nest, list | tuple):
        return [filled(item, values) for item in nest]
    return nest


def is_tensors(nest: Nest) -> bool:
    """Return whether a nest consists of values, at least one of them."""
    if isinstance(nest, dict):
        return bool(nest) and all(map(is_tensors, nest.values()))
    if isinstance(nest, list):
        return bool(nest) and all(map(is_tensors, nest))
    return isinstance(nest, Argument | Held | Result | Known)


def names(inputs: Nest) -> list[str]:
    """Return the names of positional arguments, "" where nothing is named.

    The spec of a tensor in a nest is named `states/0`.
    """
    args, _ = inputs
    first = [(specs(argument) or [Spec(None, "")])[0].name for argument in args]
    return [name.partition("/")[0] for name in first]


def for_inference(traces: Sequence[Trace], tensors: int | None = None) -> Trace | None:
    """Return the trace for inference with the most general shapes, or None.

    Args:
        tensors: how many tensors it has to take; None for as few as any takes.
    """
    counts = {len(specs(trace.inputs)) for trace in traces} - {0}
    wanted = min(counts, default=0) if tensors is None else tensors
    fitting = [trace for trace in traces if len(specs(trace.inputs)) == wanted]
    return max(fitting, key=_rank, default=None)


def _rank(trace: Trace) -> tuple[bool, bool, int]:
    shapes = [spec.shape for spec in specs(trace.inputs)]
    unknown = sum(size is None for shape in shapes for size in shape or ())
    return not _has_true(trace.inputs), None not in shapes, unknown


def _has_true(nest: Nest) -> bool:
    if isinstance(nest, dict):
        return any(map(_has_true, nest.values()))
    if isinstance(nest, list | tuple) and not isinstance(nest, Spec):
        return any(map(_has_true, nest))
    return nest is True
