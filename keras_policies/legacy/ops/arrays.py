"""Shapes, filling, joining and splitting: by their TensorFlow names."""

import math

import numpy as np
from keras import ops

from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import kinds, sizes
from keras_policies.legacy.ops.elementwise import constant


def shape(input: kinds.operand, out_type: kinds.dtype = "int32"):
    """`tf.shape`: ints where they are known."""
    if kinds.is_tensor(input):
        return sizes.shape(input)
    return list(np.shape(input))


def size(input: kinds.operand, out_type: kinds.dtype = "int32"):
    """`tf.size`."""
    total = 1
    for item in shape(input):
        total = sizes.combine(ops.multiply, lambda x, y: x * y, total, item)
    return total


def rank(input: kinds.operand):
    """`tf.rank`, always known."""
    return len(shape(input))


def reshape(tensor: kinds.operand, shape: kinds.sizes):
    """`tf.reshape`."""
    if kinds.is_tensor(tensor):
        return sizes.reshape(tensor, shape)
    return np.reshape(np.asarray(tensor, dtype=object), shape).tolist()


def transpose(
    a: kinds.tensor, perm: kinds.integers = None, conjugate: kinds.boolean = False
):
    """`tf.transpose`; no tensor here is complex."""
    if perm is None:  # told in full: torch deprecates its `x.T`, which stock takes
        perm = tuple(reversed(range(len(a.shape))))
    return ops.transpose(a, axes=perm)


def expand_dims(input: kinds.operand, axis: kinds.integer):
    """`tf.expand_dims`."""
    if kinds.is_tensor(input):
        return ops.expand_dims(input, axis)
    return [input] if np.ndim(input) == 0 else np.expand_dims(input, axis)


def squeeze(input: kinds.operand, axis: kinds.axes = None):
    """`tf.squeeze`."""
    if not kinds.is_tensor(input):
        return input[0] if len(input) == 1 else input
    if axis is None or axis == ():
        axis = tuple(i for i, length in enumerate(input.shape) if length == 1)
    many = axis if isinstance(axis, tuple) else (axis,)
    for one in sorted((i % len(input.shape) for i in many), reverse=True):
        input = ops.squeeze(input, one)
    return input


def concat(values: kinds.operands, axis: kinds.integer):
    """`tf.concat`, of tensors or of lists of sizes."""
    if any(map(kinds.is_tensor, values)):
        return ops.concatenate(_alike(values), axis=axis)
    lists = [value if isinstance(value, list) else np.ravel(value) for value in values]
    return [item for value in lists for item in value]


def _alike(values):
    """Return tensors and constants in one dtype, those that hold numbers as arrays."""
    like = next(value for value in values if kinds.is_tensor(value))
    return [
        value if kinds.is_tensor(value) else np.asarray(constant(value, like))
        for value in (sizes.as_tensor(value) for value in values)
    ]


def stack(values: kinds.operands, axis: kinds.integer = 0):
    """`tf.stack`, of tensors or of sizes."""
    if any(map(kinds.is_tensor, values)):
        return ops.stack(_alike(values), axis=axis)
    return list(values)


def unstack(value: kinds.operand, num: kinds.integer = None, axis: kinds.integer = 0):
    """`tf.unstack`."""
    if not kinds.is_tensor(value):
        return tuple(value)
    return tuple(ops.unstack(value, num=num, axis=axis))


def split(
    value: kinds.tensor,
    num_or_size_splits: kinds.axes,
    axis: kinds.integer = 0,
    num: kinds.integer = None,
):
    """`tf.split`, into equal parts or into parts of these sizes, one of them -1."""
    if isinstance(num_or_size_splits, int):
        return tuple(ops.split(value, num_or_size_splits, axis=axis))
    parts = list(num_or_size_splits)
    if -1 in parts:
        if value.shape[axis] is None:
            raise ValueError("num_or_size_splits: -1 of an axis of unknown size")
        parts[parts.index(-1)] = value.shape[axis] - sum(parts) - 1
    # A tuple would be an array once the model is saved and read.
    ends = [int(end) for end in np.cumsum(parts)[:-1]]
    return tuple(ops.split(value, ends, axis=axis))


def tile(input: kinds.operand, multiples: kinds.sizes):
    """`tf.tile`; a multiple that is not known needs a size of 1 there."""
    if not sizes.has_unknown(multiples):
        if kinds.is_tensor(input):
            return ops.tile(input, multiples)
        budget.spend(np.size(input) * math.prod(multiples), 8)
        return np.tile(input, multiples)
    if not kinds.is_tensor(input):
        input = kinds.array(input)
    unknown = [isinstance(multiple, sizes.Size) for multiple in multiples]
    found = [
        length for length, is_one in zip(input.shape, unknown, strict=True) if is_one
    ]
    if any(length != 1 for length in found):
        raise ValueError(f"multiples: {multiples} of the shape {tuple(input.shape)}")
    known = [1 if isinstance(v, sizes.Size) else v for v in multiples]
    lengths = [v if isinstance(v, sizes.Size) else 1 for v in multiples]
    repeated = (
        ops.tile(input, known) if kinds.is_tensor(input) else np.tile(input, known)
    )
    zeros = sizes.filled(lengths, 0, np.dtype(input.dtype).name)
    return ops.add(zeros, repeated)


def broadcast_to(input: kinds.operand, shape: kinds.sizes):
    """`tf.broadcast_to`."""
    if sizes.has_unknown(shape):
        like = input if kinds.is_tensor(input) else kinds.array(input)
        return ops.add(sizes.filled(shape, 0, np.dtype(like.dtype).name), input)
    return (ops if kinds.is_tensor(input) else np).broadcast_to(input, shape)


def fill(dims: kinds.sizes, value: kinds.operand):
    """`tf.fill`: a constant, if the sizes are known."""
    number = kinds.array(value)
    if sizes.has_unknown(dims):
        return sizes.filled(dims, number.item(), number.dtype.name)
    budget.spend(math.prod(dims), number.itemsize)
    return np.full(dims, number)


def zeros(shape: kinds.sizes, dtype: kinds.dtype = "float32"):
    """`tf.zeros`."""
    return fill(shape, np.zeros((), dtype))


def ones(shape: kinds.sizes, dtype: kinds.dtype = "float32"):
    """`tf.ones`."""
    return fill(shape, np.ones((), dtype))


def arange(
    start: kinds.operand,
    limit: kinds.operand = None,
    delta: kinds.number = 1,
    dtype: kinds.dtype = None,
):
    """`tf.range`; to a size that is not known, by counting."""
    start, limit = (0, start) if limit is None else (start, limit)
    if isinstance(limit, sizes.Size):
        if (start, delta) != (0, 1):
            raise ValueError("limit: not known, which needs start 0 and delta 1")
        counted = ops.cumsum(limit.ones(dtype or "int32"), axis=0)
        return ops.subtract(counted, 1)
    start, limit = kinds.number(start), kinds.number(limit)
    budget.spend(abs(limit - start) / abs(delta), 8)
    return np.arange(start, limit, delta, dtype=dtype)


def pad(
    tensor: kinds.tensor,
    paddings: kinds.pairs,
    mode: kinds.string = "constant",
    constant_values: kinds.number = 0,
):
    """`tf.pad`."""
    if mode.lower() == "constant":
        widths = [list(pair) for pair in paddings]
        return ops.pad(tensor, widths, "constant", constant_values=constant_values)
    for axis, (before, after) in enumerate(paddings):
        if (before, after) != (0, 0):  # torch has no symmetric padding
            length = kinds.integer(tensor.shape[axis])
            widths = before, after
            budget.spend(length + before + after, 8)
            positions = np.pad(np.arange(length), widths, mode.lower())
            tensor = ops.take(tensor, positions.astype("int32"), axis=axis)
    return tensor


def repeat(input: kinds.tensor, repeats: kinds.axes, axis: kinds.integer = None):
    """`tf.repeat`, each item as often, or as often as is said for each."""
    if isinstance(repeats, int):
        return ops.repeat(input, repeats, axis=axis)
    budget.spend(sum(repeats), 8)
    return ops.take(input, np.repeat(np.arange(len(repeats)), repeats), axis=axis)


def roll(input: kinds.tensor, shift: kinds.axes, axis: kinds.axes):
    """`tf.roll`."""
    return ops.roll(input, shift, axis=axis)


def reverse(tensor: kinds.tensor, axis: kinds.axes):
    """`tf.reverse`."""
    return ops.flip(tensor, axis=list(axis) if isinstance(axis, tuple) else axis)


def eye(
    num_rows: kinds.integer,
    num_columns: kinds.integer = None,
    batch_shape: kinds.anything = None,
    dtype: kinds.dtype = "float32",
):
    """`tf.eye`, a constant."""
    if batch_shape is not None:
        raise ValueError("batch_shape: expected None")
    budget.spend(num_rows * (num_columns or num_rows), 8)
    return np.eye(num_rows, num_columns, dtype=dtype)


def linspace(start: kinds.number, stop: kinds.number, num: kinds.integer):
    """`tf.linspace`, a constant."""
    budget.spend(num, 8)
    return np.linspace(start, stop, num, dtype="float32")


def sequence_mask(
    lengths: kinds.tensor, maxlen: kinds.integer, dtype: kinds.dtype = "bool"
):
    """`tf.sequence_mask` of a length that is known."""
    numbers = np.arange(maxlen, dtype=lengths.dtype)
    return ops.cast(ops.less(numbers, ops.expand_dims(lengths, -1)), dtype)


def batch_flatten(x: kinds.tensor):
    """`tf.keras.backend.batch_flatten`."""
    return ops.reshape(x, (-1, int(np.prod(kinds.integers(x.shape[1:])))))


FUNCTIONS = {
    "eye": eye,
    "linspace": linspace,
    "sequence_mask": sequence_mask,
    "keras.backend.batch_flatten": batch_flatten,
    "shape": shape,
    "size": size,
    "rank": rank,
    "reshape": reshape,
    "transpose": transpose,
    "expand_dims": expand_dims,
    "squeeze": squeeze,
    "concat": concat,
    "stack": stack,
    "unstack": unstack,
    "split": split,
    "tile": tile,
    "broadcast_to": broadcast_to,
    "fill": fill,
    "zeros": zeros,
    "ones": ones,
    "range": arange,
    "pad": pad,
    "repeat": repeat,
    "roll": roll,
    "reverse": reverse,
}
