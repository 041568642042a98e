"""The traces of a layer: which one to follow, and the structure of its arguments."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from keras_policies.legacy.base import trees
from keras_policies.legacy.base.traced_functions import (
    Composite,
    ConcreteFunction,
    Nest,
    TensorSpec,
)
from keras_policies.legacy.plan.reconstruction.steps import (
    Argument,
    Constant,
    StepOutput,
    VariableRef,
)


def specs(nest: Nest) -> list[TensorSpec]:
    """Return the specs in a nest, those of dicts in the order of sorted keys."""
    return [leaf for leaf in trees.leaves(nest) if isinstance(leaf, TensorSpec)]


def composites(nest: Nest) -> list[str]:
    """Return the types of the composite tensors in a nest, such as "ragged"."""
    return [leaf.kind for leaf in trees.leaves(nest) if isinstance(leaf, Composite)]


def unflatten(nest: Nest, values: Iterator[Any]) -> Nest:
    """Return a nest with the next value in place of each spec; tuples become lists."""
    if isinstance(nest, TensorSpec):
        return next(values)
    if isinstance(nest, dict):
        return {key: unflatten(nest[key], values) for key in sorted(nest)}
    if isinstance(nest, list | tuple):
        return [unflatten(item, values) for item in nest]
    return nest


def is_tensors(nest: Nest) -> bool:
    """Return whether a nest consists of values, at least one of them."""
    if isinstance(nest, dict):
        return bool(nest) and all(map(is_tensors, nest.values()))
    if isinstance(nest, list):
        return bool(nest) and all(map(is_tensors, nest))
    return isinstance(nest, Argument | VariableRef | StepOutput | Constant)


def names(inputs: Nest) -> list[str]:
    """Return the names of positional arguments, "" for an argument without one.

    The spec of a tensor in a nest is named `states/0`, from 2.5 on `states_0`.
    """
    args, _ = inputs
    return [_name(argument) for argument in args]


def _name(argument: Nest) -> str:
    name = (specs(argument) or [TensorSpec(None, "")])[0].name
    is_nest = not isinstance(argument, TensorSpec)
    return re.sub(r"[/_]\d+$", "", name) if is_nest else name


def for_inference(
    traces: Sequence[ConcreteFunction], tensors: int | None = None
) -> list[ConcreteFunction]:
    """Return the traces for inference, the one with the most general shapes first.

    They take `tensors` tensors, or one more, which is a mask. If `tensors` is None,
    they take the smallest number that any trace takes.
    """
    by_count: dict[int, list[ConcreteFunction]] = {}
    for trace in traces:
        by_count.setdefault(len(specs(trace.inputs)), []).append(trace)
    if tensors is None:
        tensors = min(by_count.keys() - {0}, default=0)
    masked = [t for t in by_count.get(tensors + 1, ()) if takes_mask(t)]
    fitting = sorted(by_count.get(tensors) or masked, key=_rank, reverse=True)
    return [trace for trace in fitting if _rank(trace)[:2] == _rank(fitting[0])[:2]]


def takes_mask(trace: ConcreteFunction) -> bool:
    """Return whether the last tensor that a trace takes is a mask."""
    tensors = specs(trace.inputs)
    return len(tensors) > 1 and tensors[-1].name == "mask"


def general_specs(traces: Sequence[ConcreteFunction]) -> list[TensorSpec]:
    """Return the specs of traces, with None for each size that differs.

    If a rank differs or is unknown, return the specs of the first trace.
    """
    all_specs = [specs(trace.inputs) for trace in traces]
    first, general = all_specs[0], []
    for same in zip(*all_specs, strict=True):
        shapes = [spec.shape for spec in same]
        if len({None if shape is None else len(shape) for shape in shapes}) > 1:
            return first
        if shapes[0] is None:
            return first
        sizes = zip(*(shape or () for shape in shapes), strict=True)
        shape = tuple(s[0] if len(set(s)) == 1 else None for s in sizes)
        general.append(TensorSpec(shape, same[0].dtype, same[0].name))
    return general


def _rank(trace: ConcreteFunction) -> tuple[bool, bool, int]:
    shapes = [spec.shape for spec in specs(trace.inputs)]
    unknown = sum(size is None for shape in shapes for size in shape or ())
    trains = any(leaf is True for leaf in trees.leaves(trace.inputs))
    return not trains, None not in shapes, unknown
