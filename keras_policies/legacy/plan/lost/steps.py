"""What a recorded function does, step by step: the form between reading and layers."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from keras_policies.legacy.base.model import Array, Config

Nest: TypeAlias = Any  # lists and dicts of values


class Argument(NamedTuple):
    """A tensor that the function is given."""

    number: int


class Held(NamedTuple):
    """A variable, or what is read from it."""

    variable: int  # its number in `Recorded`


class Result(NamedTuple):
    """A tensor that a step makes."""

    step: int
    position: int = 0


@dataclasses.dataclass(frozen=True, eq=False)
class Known:
    """A constant."""

    value: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Items:
    """A list of tensors, some of them not yet there."""

    values: "tuple[Value | None, ...]"


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """The list of tensors that a tensor is along its first axis."""

    tensor: "Value"


Value: TypeAlias = Argument | Held | Result | Known | Items | Rows


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """A layer of the rebuilt model, which may be called several times.

    `weights` has `(path of the variable from the layer, its number, its shape)`; the
    shape is None where it stays as recorded. `tensors` is how many tensors in a list a
    rebuilt layer is called on, None for any other layer.
    """

    name: str
    class_name: str
    config: Config
    weights: tuple[tuple[str, int, tuple[int, ...] | None], ...] = ()
    tensors: int | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class OpStep:
    """A TensorFlow op."""

    name: str
    op: str
    attributes: Mapping[str, Any]
    inputs: tuple[Value, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class CallStep:
    """A call of a layer."""

    part: Part
    argument: Nest
    kwargs: Mapping[str, Nest] = dataclasses.field(default_factory=dict)


Step: TypeAlias = OpStep | CallStep


def mapped(function: Callable[[Value], Any], nest: Nest) -> Nest:
    """Return a nest of values with `function` applied to each."""
    if isinstance(nest, dict):
        return {key: mapped(function, item) for key, item in nest.items()}
    if isinstance(nest, list):
        return [mapped(function, item) for item in nest]
    is_value = isinstance(nest, Argument | Held | Result | Known | Items | Rows)
    return function(nest) if is_value else nest


def values_in(nest: Nest) -> list[Value]:
    """Return the values in a nest, those of dicts in the order of the keys."""
    found: list[Value] = []
    mapped(found.append, nest)
    return found


def inputs_of(step: Step) -> list[Value]:
    """Return the values that a step takes."""
    if isinstance(step, OpStep):
        return [*step.inputs]
    return values_in([step.argument, dict(step.kwargs)])


def constant(value: Value) -> Array | None:
    """Return the array of a constant, or None."""
    return np.asarray(value.value) if isinstance(value, Known) else None


def same(
    one: tuple[Sequence[Step], Sequence[Value]],
    other: tuple[Sequence[Step], Sequence[Value]],
) -> bool:
    """Return whether two functions, as steps and outputs, do the same."""
    sizes = [(len(steps), len(outputs)) for steps, outputs in (one, other)]
    return sizes[0] == sizes[1] and all(
        _same(a, b)
        for a, b in zip([*one[0], *one[1]], [*other[0], *other[1]], strict=True)
    )


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Known) and isinstance(b, Known):
        return _same(a.value, b.value)
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, OpStep):
        return _same([a.op, a.inputs, a.attributes], [b.op, b.inputs, b.attributes])
    if isinstance(a, CallStep):
        calls = [a.argument, a.kwargs], [b.argument, b.kwargs]
        return a.part is b.part and _same(*calls)
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and not isinstance(a, Argument | Held | Result):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)
