"""Functions directly under `tf` on shapes, and to reshape and pad."""

import itertools
from typing import Any

import numpy as np

from keras_policies.legacy.ops import kinds
from keras_policies.legacy.ops.kinds import Axes, DType, Lengths, Value
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.dims import DimLike, UndecidedError
from keras_policies.legacy.values.evaluator import dtype_of, has_dims, ops

SQUEEZE = Raw("input", "axis=squeeze_dims")
PAD_V2 = Raw("tensor paddings constant_values")
MIRROR_PAD = Raw("tensor paddings", "mode")


@op("shape", v1=True, Shape=Raw("input", "out_type"))
def shape(input: Value, out_type: DType = "int32") -> Value:
    """Return the shape, with a dimension for each length that is not known."""
    return computed.vector(computed.shape(input), out_type)


@op("shape_n", ShapeN=Raw("*input", "out_type"))
def shape_n(input: kinds.Values, out_type: DType = "int32") -> tuple[Value, ...]:
    """Return the shapes of several values."""
    return tuple(shape(one, out_type) for one in input)


@op("size", v1=True, Size=Raw("input", "out_type"))
def size(input: Value, out_type: DType = "int32") -> Value:
    """Return the number of items."""
    return ops.prod(shape(input, out_type))


@op("rank", v1=True, Rank=Raw("input"))
def rank(input: Value) -> Value:
    """Return the number of axes, which is always known."""
    return np.int32(computed.rank(input))


@op("ensure_shape", EnsureShape=Raw("x"))
def ensure_shape(x: Value, shape: object = None) -> Value:
    """Return `x`: the function checks and changes nothing."""
    return x


@op("broadcast_dynamic_shape", BroadcastArgs=Raw("shape_x shape_y"))
def broadcast_dynamic_shape(shape_x: Lengths, shape_y: Lengths) -> Value:
    """Return the shape of two tensors that are broadcast together."""
    pairs = itertools.zip_longest(reversed(shape_x), reversed(shape_y), fillvalue=1)
    return computed.vector([_broadcast(*pair) for pair in pairs][::-1])


def _broadcast(one: DimLike, other: DimLike) -> DimLike:
    if 1 in (one, other):
        return other if one == 1 else one
    if one != other:
        raise UndecidedError(one, "==", other)
    return one


@op("reshape", Reshape=Raw("tensor shape"))
def reshape(tensor: Value, shape: Lengths) -> Value:
    """Reshape a value."""
    return computed.reshape(tensor, shape)


@op("transpose", v1=True, Transpose=Raw("a perm"))
def transpose(
    a: Value, perm: tuple[int, ...] | None = None, conjugate: bool = False
) -> Value:
    """Reorder the axes; no tensor here is complex."""
    if perm is None:  # in full, as stock Keras on torch calls the deprecated `x.T`
        perm = tuple(reversed(range(computed.rank(a))))
    return ops.transpose(a, axes=perm)


@op("expand_dims", ExpandDims=Raw("input axis"), renamed={"dim": "axis"})
def expand_dims(input: Value, axis: Axes) -> Value:
    """Insert an axis of size 1; some files write its position as a list."""
    return ops.expand_dims(input, axis[0] if isinstance(axis, tuple) else axis)


@op("squeeze", v1=True, Squeeze=SQUEEZE, renamed={"squeeze_dims": "axis"})
def squeeze(input: Value, axis: Axes | None = None) -> Value:
    """Remove axes of size 1."""
    lengths = computed.shape(input)
    if axis is None or axis == ():
        axis = tuple(i for i, length in enumerate(lengths) if length == 1)
    many = axis if isinstance(axis, tuple) else (axis,)
    for one in sorted((i % len(lengths) for i in many), reverse=True):
        if has_dims(lengths[one]):  # Keras refuses it; TensorFlow found one item
            input = computed.index(input, [*[slice(None)] * one, 0])
        else:
            input = ops.squeeze(input, one)
    return input


@op("broadcast_to", BroadcastTo=Raw("input shape"))
def broadcast_to(input: Value, shape: Lengths) -> Value:
    """Broadcast to a shape."""
    return computed.broadcast_to(input, shape)


@op("pad", v1=True, Pad=Raw("tensor paddings"), PadV2=PAD_V2, MirrorPad=MIRROR_PAD)
def pad(
    tensor: Value, paddings: object, mode: str = "constant", constant_values: Value = 0
) -> Value:
    """Pad with a number, or with the items near the edge."""
    rows = np.asarray(paddings, dtype=object)
    if rows.ndim != 2 or rows.shape[1] != 2:
        raise ValueError(f"expected a list of pairs of integers, found {paddings!r}")
    pairs = [tuple(map(kinds.length, row)) for row in rows]
    if mode.lower() not in ("constant", "reflect", "symmetric"):
        raise ValueError(f"mode: expected REFLECT or SYMMETRIC, found {mode!r}")
    if mode.lower() == "constant":
        return _padded(tensor, pairs, constant_values)
    for axis, (before, after) in enumerate(pairs):
        if (before, after) != (0, 0):  # torch has no symmetric padding
            length = computed.shape(tensor)[axis]
            at = computed.arange(-before, length + after)
            twice = int(mode.lower() == "symmetric")  # it has the edge itself twice
            at = ops.maximum(at, ops.subtract(-twice, at))
            at = ops.minimum(at, ops.subtract(2 * length - 2 + twice, at))
            tensor = ops.take(tensor, at, axis=axis)
    return tensor


def _padded(tensor: Any, pairs: list[tuple[DimLike, ...]], number: Any) -> Any:
    """Pad with a number, by as many items as may be known when the model runs."""
    known = [[0 if has_dims(n) else n for n in pair] for pair in pairs]
    if any(n for pair in known for n in pair):
        value = np.asarray(number).item()
        tensor = ops.pad(tensor, known, "constant", constant_values=value)
    for axis, pair in enumerate(pairs):
        for end, count in enumerate(pair):
            if has_dims(count):
                lengths = [*computed.shape(tensor)]
                lengths[axis] = count
                more = computed.full(lengths, number, dtype_of(tensor))
                parts = [more, tensor] if end == 0 else [tensor, more]
                tensor = ops.concatenate(parts, axis=axis)
    return tensor
