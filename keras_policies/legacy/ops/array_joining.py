"""Functions directly under `tf` that join, split, repeat and reorder items."""

import itertools

import numpy as np

from keras_policies.legacy.ops import kinds
from keras_policies.legacy.ops.kinds import Axes, Lengths, Value, Values
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.evaluator import has_dims, ops

SPLIT = Raw("axis value", "num_or_size_splits=num_split")


@op("concat", ConcatV2=Raw("*values axis"))
def concat(values: Values, axis: int) -> Value:
    """Join values along an axis."""
    return ops.concatenate(values, axis=axis)


@op("stack", Pack=Raw("*values", "axis"))
def stack(values: Values, axis: int = 0) -> Value:
    """Join values along a new axis."""
    return ops.stack(values, axis=axis)


@op("unstack", Unpack=Raw("value", "num axis"))
def unstack(value: Value, num: int | None = None, axis: int = 0) -> tuple[Value, ...]:
    """Split along an axis into values without it."""
    return tuple(ops.unstack(value, num=num, axis=axis))


@op("split", Split=SPLIT, SplitV=Raw("value num_or_size_splits axis"))
def split(
    value: Value, num_or_size_splits: object, axis: int = 0, num: int | None = None
) -> tuple[Value, ...]:
    """Split into equal parts, or into parts of these sizes, one of which may be -1."""
    if np.ndim(num_or_size_splits) == 0:  # type: ignore[arg-type]
        return tuple(ops.split(value, kinds.integer(num_or_size_splits), axis=axis))
    parts = kinds.lengths(num_or_size_splits)
    if -1 in parts:
        rest = parts.index(-1)
        others = sum(parts[:rest] + parts[rest + 1 :])
        parts[rest] = computed.shape(value)[axis] - others
    ends = [*itertools.accumulate(parts)]
    if not any(map(has_dims, ends[:-1])):
        return tuple(ops.split(value, ends[:-1], axis=axis))
    whole = [slice(None)] * (axis % computed.rank(value))
    bounds = itertools.pairwise([0, *ends])
    return tuple(computed.index(value, [*whole, slice(a, b)]) for a, b in bounds)


@op("tile", Tile=Raw("input multiples"))
def tile(input: Value, multiples: Lengths) -> Value:
    """Repeat a value along its axes."""
    return computed.tile(input, multiples)


@op("repeat")
def repeat(input: Value, repeats: Lengths, axis: int | None = None) -> Value:
    """Repeat each item, all the same number of times or each its own."""
    if len(repeats) == 1:
        return computed.repeat(input, repeats[0], axis)
    times = kinds.integers(repeats)
    every = ops.repeat(computed.arange(0, len(times)), np.asarray(times))
    return ops.take(input, every, axis=axis)


@op("roll", Roll=Raw("input shift axis"))
def roll(input: Value, shift: Axes, axis: Axes) -> Value:
    """Shift the items along axes; what leaves at one end enters at the other."""
    return ops.roll(input, shift, axis=axis)


@op("reverse", ReverseV2=Raw("tensor axis"))
def reverse(tensor: Value, axis: Axes) -> Value:
    """Reverse the order of the items along axes."""
    return ops.flip(tensor, axis=[*axis] if isinstance(axis, tuple) else axis)
