"""Functions directly under `tf` that reshape, pad, join and split."""

import itertools
import math
from typing import Any

import numpy as np

from keras_policies.legacy.ops import converters
from keras_policies.legacy.ops.converters import Axes, DType, Lengths, Value, Values
from keras_policies.legacy.ops.registry import functions, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.dims import DimLike, UndecidedError
from keras_policies.legacy.values.evaluator import dtype_of, has_dims, is_tensor, ops

functions("tensor shape:Lengths", (computed.reshape, "reshape Reshape"))
functions("input shape:Lengths", (computed.broadcast_to, "broadcast_to BroadcastTo"))
functions("input multiples:Lengths", (computed.tile, "tile Tile"))
functions("input shift:Axes axis:Axes", "roll Roll: roll")
functions("input", (lambda x: np.int32(computed.rank(x)), "rank Rank"), v1=True)
functions("x shape:object=None", "ensure_shape EnsureShape(x): x")
functions("values:Values axis:int", "concat ConcatV2(*values axis): concatenate")
functions("values:Values axis:int=0", "stack Pack(*values; axis): stack")


@op("shape Shape", v1=True)
def shape(input: Value, out_type: DType = "int32") -> Value:
    """Return the shape, with a dimension for each unknown length."""
    return computed.vector(computed.shape(input), out_type)


@op("shape_n ShapeN(*input; out_type)")
def shape_n(input: Values, out_type: DType = "int32") -> tuple[Value, ...]:
    """Return the shapes of several values."""
    return tuple(shape(value, out_type) for value in input)


@op("ConcatOffset(*values)")
def concat_offset(values: Values) -> tuple[Value, ...]:
    """Return where each part of a concatenation starts; the axis is the first value."""
    rank, parts = len(values[1]), values[1:]
    axis = int(values[0]) % rank
    starts = itertools.accumulate((part[axis] for part in parts[:-1]), initial=0)
    return tuple(
        computed.vector([start if i == axis else 0 for i in range(rank)])
        for start in starts
    )


@op("size Size", v1=True)
def size(input: Value, out_type: DType = "int32") -> Value:
    """Return the number of elements."""
    return ops.prod(shape(input, out_type))


@op("broadcast_dynamic_shape BroadcastArgs")
def broadcast_dynamic_shape(shape_x: Lengths, shape_y: Lengths) -> Value:
    """Return the shape to which two shapes are broadcast."""
    pairs = itertools.zip_longest(reversed(shape_x), reversed(shape_y), fillvalue=1)
    return computed.vector([_broadcast(*pair) for pair in pairs][::-1])


def _broadcast(one: DimLike, other: DimLike) -> DimLike:
    if 1 in (one, other):
        return other if one == 1 else one
    if one != other:
        raise UndecidedError(one, "==", other)
    return one


@op("transpose Transpose(a perm)", v1=True)
def transpose(
    a: Value, perm: tuple[int, ...] | None = None, conjugate: bool = False
) -> Value:
    """Reorder the axes; no tensor here is complex."""
    if perm is None:  # for None, plain Keras on torch calls the deprecated `x.T`
        perm = tuple(reversed(range(computed.rank(a))))
    return ops.transpose(a, axes=perm)


@op("expand_dims ExpandDims", renamed={"dim": "axis"})
def expand_dims(input: Value, axis: Axes) -> Value:
    """Insert an axis of size 1; some files write its position as a list."""
    return ops.expand_dims(input, axis[0] if isinstance(axis, tuple) else axis)


@op(
    "squeeze Squeeze(input; axis=squeeze_dims)",
    v1=True,
    renamed={"squeeze_dims": "axis"},
)
def squeeze(input: Value, axis: Axes | None = None) -> Value:
    """Remove axes of size 1."""
    lengths = computed.shape(input)
    if axis is None or axis == ():
        axis = tuple(i for i, length in enumerate(lengths) if length == 1)
    axes = axis if isinstance(axis, tuple) else (axis,)
    for i in sorted((i % len(lengths) for i in axes), reverse=True):
        if has_dims(lengths[i]):  # Keras refuses unknown lengths
            input = computed.index(input, [*[slice(None)] * i, 0])
        else:
            input = ops.squeeze(input, i)
    return input


@op(
    "pad Pad(tensor paddings) PadV2(tensor paddings constant_values) MirrorPad(tensor "
    "paddings; mode)",
    v1=True,
)
def pad(
    tensor: Value, paddings: object, mode: str = "constant", constant_values: Value = 0
) -> Value:
    """Pad with a number, or with the elements near the edge."""
    widths = np.asarray(paddings, dtype=object)
    if widths.ndim != 2 or widths.shape[1] != 2:
        raise ValueError(f"expected a list of pairs of integers, found {paddings!r}")
    pairs = [tuple(map(converters.length, pair)) for pair in widths]
    if mode.lower() not in ("constant", "reflect", "symmetric"):
        raise ValueError(f"mode: expected REFLECT or SYMMETRIC, found {mode!r}")
    if mode.lower() == "constant":
        return _padded(tensor, pairs, constant_values)
    for axis, (before, after) in enumerate(pairs):
        if (before, after) != (0, 0):  # torch has no symmetric padding
            length = computed.shape(tensor)[axis]
            at = computed.arange(-before, length + after)
            twice = int(mode.lower() == "symmetric")  # the edge itself is repeated
            at = ops.maximum(at, ops.subtract(-twice, at))
            at = ops.minimum(at, ops.subtract(2 * length - 2 + twice, at))
            tensor = ops.take(tensor, at, axis=axis)
    return tensor


def _padded(tensor: Any, pairs: list[tuple[DimLike, ...]], number: Any) -> Any:
    """Pad with a number; widths may be known only when the model runs."""
    widths = [[0 if has_dims(n) else n for n in pair] for pair in pairs]
    if any(n for pair in widths for n in pair):
        value = np.asarray(number).item()
        tensor = ops.pad(tensor, widths, "constant", constant_values=value)
    for axis, pair in enumerate(pairs):
        for end, count in enumerate(pair):
            if has_dims(count):
                lengths = [*computed.shape(tensor)]
                n = computed.multiple_after(lengths[axis], count) if end else None
                if n is not None and not is_tensor(number) and not np.any(number):
                    tensor = computed.filled_up(tensor, axis, count, n)
                    continue
                lengths[axis] = count
                more = computed.full(lengths, number, dtype_of(tensor))
                parts = [more, tensor] if end == 0 else [tensor, more]
                tensor = ops.concatenate(parts, axis=axis)
    return tensor


@op("meshgrid")
def meshgrid(
    x: Value, y: Value | None = None, z: Value | None = None, indexing: str = "xy"
) -> tuple[Value, ...]:
    """Return the coordinates of a grid of one to three lines, a value for each line."""
    lines = [line for line in (x, y, z) if line is not None]
    axes = [*range(len(lines))]
    if indexing == "xy":
        axes[:2] = axes[1::-1]
    lengths = [computed.shape(lines[axis])[0] for axis in axes]
    placed = zip(lines, axes, strict=True)
    return tuple(
        computed.broadcast_to(computed.along(line, axis, len(axes)), lengths)
        for line, axis in placed
    )


@op("unstack Unpack")
def unstack(value: Value, num: int | None = None, axis: int = 0) -> tuple[Value, ...]:
    """Split along an axis into values without it."""
    return tuple(ops.unstack(value, num=num, axis=axis))


@op(
    "split Split(axis value; num_or_size_splits=num_split) SplitV(value "
    "num_or_size_splits axis)"
)
def split(
    value: Value, num_or_size_splits: object, axis: int = 0, num: int | None = None
) -> tuple[Value, ...]:
    """Split into equal parts, or into parts of these sizes, one of which may be -1."""
    if np.ndim(num_or_size_splits) == 0:  # type: ignore[arg-type]
        count = converters.integer(num_or_size_splits)
        if count == 1:
            return (value,)
        return tuple(ops.split(value, count, axis=axis))
    sizes = converters.lengths(num_or_size_splits)
    if len(sizes) == 1:  # torch does not split into one part
        return (value,)
    if -1 in sizes:
        rest = sizes.index(-1)
        others = sum(sizes[:rest] + sizes[rest + 1 :])
        sizes[rest] = computed.shape(value)[axis] - others
    ends = [*itertools.accumulate(sizes)]
    if not any(map(has_dims, ends[:-1])):
        return tuple(ops.split(value, ends[:-1], axis=axis))
    leading = [slice(None)] * (axis % computed.rank(value))
    bounds = itertools.pairwise([0, *ends])
    return tuple(computed.index(value, [*leading, slice(a, b)]) for a, b in bounds)


@op("repeat")
def repeat(input: Value, repeats: Lengths, axis: int | None = None) -> Value:
    """Repeat each element, the same number of times or each by its own number."""
    if len(repeats) == 1:
        return computed.repeat(input, repeats[0], axis)
    times = converters.integers(repeats)
    positions = ops.repeat(computed.arange(0, len(times)), np.asarray(times))
    return ops.take(input, positions, axis=axis)


@op("reverse ReverseV2")
def reverse(tensor: Value, axis: Axes) -> Value:
    """Reverse the order along axes."""
    return ops.flip(tensor, axis=[*axis] if isinstance(axis, tuple) else axis)


@op("space_to_batch space_to_batch_nd nn.space_to_batch SpaceToBatchND")
def space_to_batch(
    input: Value, block_shape: tuple[int, ...], paddings: converters.Pairs
) -> Value:
    """Make an image from each position in a block."""
    rank = len(block_shape)
    rest = computed.rank(input) - rank - 1
    padded = pad(input, ((0, 0), *paddings, *[(0, 0)] * rest))
    batch, *lengths = computed.shape(padded)
    pairs = list(zip(lengths[:rank], block_shape, strict=True))
    parts = [size for length, block in pairs for size in (length // block, block)]
    x = computed.reshape(padded, [batch, *parts, *lengths[rank:]])
    inner = range(2, 2 * rank + 1, 2)
    outer = range(1, 2 * rank, 2)
    last = range(2 * rank + 1, 2 * rank + 1 + rest)
    x = ops.transpose(x, [*inner, 0, *outer, *last])
    count = batch * math.prod(block_shape)
    return computed.reshape(x, [count, *parts[::2], *lengths[rank:]])


@op("batch_to_space compat.v1.batch_to_space_nd BatchToSpaceND")
def batch_to_space(
    input: Value, block_shape: tuple[int, ...], crops: converters.Pairs
) -> Value:
    """Undo `space_to_batch`, and cut the edges."""
    rank = len(block_shape)
    batch, *lengths = computed.shape(input)
    count = batch // math.prod(block_shape)
    x = computed.reshape(input, [*block_shape, count, *lengths])
    pairs = [axis for i in range(rank) for axis in (rank + 1 + i, i)]
    x = ops.transpose(x, [rank, *pairs, *range(2 * rank + 1, rank + 1 + len(lengths))])
    sizes = [n * block for n, block in zip(lengths, block_shape, strict=False)]
    x = computed.reshape(x, [count, *sizes, *lengths[rank:]])
    cuts = [slice(a or None, -b or None) for a, b in crops]
    return computed.index(x, [slice(None), *cuts, ...])
