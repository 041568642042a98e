"""Functions directly under `tf` on shapes, and to reshape and pad."""

import itertools
import operator
from typing import Literal, TypeAlias

import numpy as np

from keras_policies.late import ops
from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import kinds, sizes
from keras_policies.legacy.ops.kinds import Axes, DType, Operand, Pairs, Sizes, Tensor
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.ops.sizes import Size

Mode: TypeAlias = Literal["reflect", "symmetric"]
SQUEEZE = Raw("input", "axis=squeeze_dims")
PAD_V2 = Raw("tensor paddings constant_values")
MIRROR_PAD = Raw("tensor paddings", "mode")


@op("shape", v1=True, Shape=Raw("input"))
def shape(input: Operand, out_type: DType = "int32") -> list[int | Size]:
    """Return the shape, with ints for the sizes that are known."""
    return sizes.shape(input) if kinds.is_tensor(input) else list(np.shape(input))


@op("size", v1=True, Size=Raw("input"))
def size(input: Operand, out_type: DType = "int32") -> int | Size:
    """Return the number of items."""
    total: int | Size = 1
    for item in shape(input):
        total = sizes.combine(ops.multiply, operator.mul, total, item)
    return total


@op("rank", v1=True, Rank=Raw("input"))
def rank(input: Operand) -> int:
    """Return the number of axes, which is always known."""
    return len(shape(input))


@op("ensure_shape", EnsureShape=Raw("x"))
def ensure_shape(x: Tensor, shape: object = None) -> Tensor:
    """Return `x`: the function checks and changes nothing."""
    return x


@op("broadcast_dynamic_shape", BroadcastArgs=Raw("shape_x shape_y"))
def broadcast_dynamic_shape(shape_x: Sizes, shape_y: Sizes) -> list[int | Size]:
    """Return the shape of two tensors that are broadcast together."""
    pairs = itertools.zip_longest(reversed(shape_x), reversed(shape_y), fillvalue=1)
    return [_broadcast(*pair) for pair in pairs][::-1]


def _broadcast(one: int | Size, other: int | Size) -> int | Size:
    if 1 in (one, other):
        return other if one == 1 else one
    if one != other and not sizes.is_same(one, other):
        raise ValueError(f"sizes {one} and {other}: which one is larger is not known")
    return one


@op("reshape", Reshape=Raw("tensor shape"))
def reshape(tensor: Operand, shape: Sizes) -> Operand:
    """Reshape a tensor, or a list of sizes."""
    if kinds.is_tensor(tensor):
        return sizes.reshape(tensor, shape)
    lengths = tuple(map(kinds.integer, shape))
    return np.reshape(np.asarray(tensor, dtype=object), lengths).tolist()


@op("transpose", v1=True, Transpose=Raw("a perm"))
def transpose(
    a: Tensor, perm: tuple[int, ...] | None = None, conjugate: bool = False
) -> Tensor:
    """Reorder the axes; no tensor here is complex."""
    if perm is None:  # in full, as stock Keras on torch calls the deprecated `x.T`
        perm = tuple(reversed(range(len(a.shape))))
    return ops.transpose(a, axes=perm)


@op("expand_dims", ExpandDims=Raw("input axis"), renamed={"dim": "axis"})
def expand_dims(input: Operand, axis: int) -> Operand:
    """Insert an axis of size 1."""
    if kinds.is_tensor(input):
        return ops.expand_dims(input, axis)
    return [input] if np.ndim(input) == 0 else np.expand_dims(input, axis)


@op("squeeze", v1=True, Squeeze=SQUEEZE, renamed={"squeeze_dims": "axis"})
def squeeze(input: Operand, axis: Axes | None = None) -> Operand:
    """Remove axes of size 1."""
    if not kinds.is_tensor(input):
        return input[0] if len(input) == 1 else input
    if axis is None or axis == ():
        axis = tuple(i for i, length in enumerate(input.shape) if length == 1)
    many = axis if isinstance(axis, tuple) else (axis,)
    for one in sorted((i % len(input.shape) for i in many), reverse=True):
        input = ops.squeeze(input, one)
    return input


def zeros_shaped(shape: Sizes, like: Operand) -> Tensor:
    """Return zeros of a partly unknown shape, in the dtype of an operand."""
    like = like if kinds.is_tensor(like) else kinds.array(like)
    return sizes.filled(shape, 0, np.dtype(like.dtype).name)


@op("broadcast_to", BroadcastTo=Raw("input shape"))
def broadcast_to(input: Operand, shape: Sizes) -> Operand:
    """Broadcast to a shape."""
    if sizes.has_unknown(shape):
        return ops.add(zeros_shaped(shape, input), input)
    return (ops if kinds.is_tensor(input) else np).broadcast_to(input, shape)


@op("pad", v1=True, Pad=Raw("tensor paddings"), PadV2=PAD_V2, MirrorPad=MIRROR_PAD)
def pad(
    tensor: Tensor, paddings: Pairs, mode: str = "constant", constant_values: float = 0
) -> Tensor:
    """Pad with a number, or with the items near the edge."""
    if mode.lower() == "constant":
        widths = [list(pair) for pair in paddings]
        return ops.pad(tensor, widths, "constant", constant_values=constant_values)
    if mode.lower() not in ("reflect", "symmetric"):
        raise ValueError(f"mode: expected REFLECT or SYMMETRIC, found {mode!r}")
    near: Mode = "reflect" if mode.lower() == "reflect" else "symmetric"
    for axis, (before, after) in enumerate(paddings):
        if (before, after) != (0, 0):  # torch has no symmetric padding
            length = kinds.integer(tensor.shape[axis])
            budget.spend(length + before + after, 8)
            positions = np.pad(np.arange(length), (before, after), near)
            tensor = ops.take(tensor, positions.astype("int32"), axis=axis)
    return tensor
