"""Functions directly under `tf` that join, split, repeat and reorder items."""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from keras_policies.late import ops
from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import kinds, sizes
from keras_policies.legacy.ops.array_shapes import zeros_shaped
from keras_policies.legacy.ops.elementwise import together
from keras_policies.legacy.ops.kinds import Axes, Operand, Operands, Sizes, Tensor
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.ops.sizes import Size

SPLIT = Raw("axis value", "num_or_size_splits=num_split")


@op("concat", ConcatV2=Raw("*values axis"))
def concat(values: Operands, axis: int) -> Operand:
    """Join tensors along an axis, or lists of sizes."""
    if any(map(kinds.is_tensor, values)):
        return ops.concatenate(_alike(values), axis=axis)
    lists = [value if isinstance(value, list) else np.ravel(value) for value in values]
    return [item for value in lists for item in value]


@op("stack", Pack=Raw("*values", "axis"))
def stack(values: Operands, axis: int = 0) -> Operand:
    """Join tensors along a new axis; sizes become a list."""
    if any(map(kinds.is_tensor, values)):
        return ops.stack(_alike(values), axis=axis)
    return list(values)


def _alike(values: Operands) -> list[Operand]:
    """Return tensors and constants in one dtype, with numbers as arrays."""
    return [v if kinds.is_tensor(v) else np.asarray(v) for v in together(*values)]


@op("unstack", Unpack=Raw("value", "num axis"))
def unstack(
    value: Operand, num: int | None = None, axis: int = 0
) -> tuple[Operand, ...]:
    """Split along an axis into tensors without it."""
    if not kinds.is_tensor(value):
        return tuple(value)
    return tuple(ops.unstack(value, num=num, axis=axis))


@op("split", Split=SPLIT, SplitV=Raw("value num_or_size_splits axis"))
def split(
    value: Operand, num_or_size_splits: Axes, axis: int = 0, num: int | None = None
) -> tuple[Operand, ...]:
    """Split into equal parts, or into parts of these sizes, one of which may be -1."""
    if not kinds.is_tensor(value):
        return _split_sizes(value, num_or_size_splits)
    if isinstance(num_or_size_splits, int):
        return tuple(ops.split(value, num_or_size_splits, axis=axis))
    parts = list(num_or_size_splits)
    if -1 in parts:
        if value.shape[axis] is None:
            raise ValueError("num_or_size_splits: -1 of an axis of unknown size")
        parts[parts.index(-1)] = value.shape[axis] - sum(parts) - 1
    # A list of Python ints: saving and loading the model would turn others into arrays.
    ends = [int(end) for end in np.cumsum(parts)[:-1]]
    return tuple(ops.split(value, ends, axis=axis))


def _split_sizes(values: Sequence[Operand], parts: Axes) -> tuple[Operand, ...]:
    if isinstance(parts, int):
        parts = (len(values) // parts,) * parts
    ends = [0, *map(int, np.cumsum(parts))]
    return tuple([*values[a:b]] for a, b in itertools.pairwise(ends))


@op("tile", Tile=Raw("input multiples"))
def tile(input: Operand, multiples: Sizes) -> Operand:
    """Repeat a tensor; a multiple that is unknown needs an axis of size 1."""
    if sizes.has_unknown(multiples):
        return _stretched(input, multiples)
    times = sizes.known(multiples, 1)
    if kinds.is_tensor(input):
        return ops.tile(input, times)
    budget.spend(np.size(input) * math.prod(times), 8)
    return np.tile(input, times)


def _stretched(input: Operand, multiples: Sizes) -> Tensor:
    input = input if kinds.is_tensor(input) else kinds.array(input)
    for length, multiple in zip(input.shape, multiples, strict=True):
        if isinstance(multiple, Size) and length != 1:
            raise ValueError(f"multiples: {multiples} of the shape {input.shape}")
    repeated = tile(input, sizes.known(multiples, 1))
    lengths = [v if isinstance(v, Size) else 1 for v in multiples]
    return ops.add(zeros_shaped(lengths, repeated), repeated)


@op("repeat")
def repeat(input: Tensor, repeats: Axes, axis: int | None = None) -> Tensor:
    """Repeat each item, all the same number of times or each its own."""
    if isinstance(repeats, int):
        return ops.repeat(input, repeats, axis=axis)
    budget.spend(sum(repeats), 8)
    return ops.take(input, np.repeat(np.arange(len(repeats)), repeats), axis=axis)


@op("roll", Roll=Raw("input shift axis"))
def roll(input: Tensor, shift: Axes, axis: Axes) -> Tensor:
    """Shift the items along axes; what leaves at one end enters at the other."""
    return ops.roll(input, shift, axis=axis)


@op("reverse", ReverseV2=Raw("tensor axis"))
def reverse(tensor: Tensor, axis: Axes) -> Tensor:
    """Reverse the order of the items along axes."""
    return ops.flip(tensor, axis=list(axis) if isinstance(axis, tuple) else axis)
