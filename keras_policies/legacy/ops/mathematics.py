"""Mathematical functions and activations with rules of their own."""

import operator

import numpy as np
from keras import ops

from keras_policies.legacy.ops import kinds, sizes
from keras_policies.legacy.ops.elementwise import apply, named, together


def added(x, y):
    """Add tensors; Keras on TensorFlow takes a tall `y`, `(n, 1)`, for a bias."""
    is_tall = len(np.shape(y)) > 1 and np.shape(y)[-1] == 1
    return ops.subtract(x, ops.negative(y)) if is_tall else ops.add(x, y)


def add(x: kinds.operand, y: kinds.operand):
    """`tf.math.add`."""
    return apply(added, operator.add, x, y)


def atan2(y: kinds.operand, x: kinds.operand):
    """`tf.math.atan2`."""
    return ops.arctan2(*together(y, x))


def like(number):
    """Return `tf.zeros_like` or `tf.ones_like`."""

    def function(input: kinds.operand, dtype: kinds.dtype = None):
        if kinds.is_tensor(input):
            name = {0: "zeros_like", 1: "ones_like"}[number]
            return named(name)(input, dtype=dtype)
        return sizes.combine(None, lambda _: number, *[[None] * len(input)])

    return function


def xlogy(x: kinds.operand, y: kinds.operand):
    """`tf.math.xlogy`: 0 where `x` is."""
    x, y = together(x, y)
    return _zero_where_zero(x, ops.multiply(x, ops.log(y)))


def xdivy(x: kinds.operand, y: kinds.operand):
    """`tf.math.xdivy`: 0 where `x` is."""
    x, y = together(x, y)
    return _zero_where_zero(x, ops.divide(x, y))


def multiply_no_nan(x: kinds.operand, y: kinds.operand):
    """`tf.math.multiply_no_nan`: 0 where `y` is."""
    x, y = together(x, y)
    return _zero_where_zero(y, ops.multiply(x, y))


def _zero_where_zero(x, value):
    return ops.where(ops.equal(x, 0), ops.zeros_like(value), value)


def truncated(name):
    """Return `tf.truncatediv` or `tf.truncatemod`, which round towards zero."""

    def function(x: kinds.operand, y: kinds.operand):
        x, y = together(x, y)
        quotient = ops.cast(ops.trunc(ops.divide(x, y)), x.dtype)
        if name == "div":
            return quotient
        return ops.subtract(x, ops.multiply(quotient, y))

    return function


def euclidean_norm(
    input_tensor: kinds.tensor,
    axis: kinds.axes = None,
    keepdims: kinds.boolean = False,
):
    """`tf.math.reduce_euclidean_norm`."""
    return ops.sqrt(ops.sum(ops.square(input_tensor), axis=axis, keepdims=keepdims))


def count_nonzero(
    input: kinds.tensor,
    axis: kinds.axes = None,
    keepdims: kinds.boolean = False,
    dtype: kinds.dtype = "int64",
):
    """`tf.math.count_nonzero`, in the int32 that each backend can count with."""
    nonzero = ops.cast(ops.not_equal(input, 0), "int32")
    return ops.sum(nonzero, axis=axis, keepdims=keepdims)


def l2_loss(t: kinds.tensor):
    """`tf.nn.l2_loss`: half the sum of squares."""
    return ops.multiply(ops.sum(ops.square(t)), 0.5)


def zero_fraction(value: kinds.tensor):
    """`tf.math.zero_fraction`."""
    return ops.mean(ops.cast(ops.equal(value, 0), "float32"))


def clip_by_norm(t: kinds.tensor, clip_norm: kinds.number, axes: kinds.axes = None):
    """`tf.clip_by_norm`."""
    length = euclidean_norm(t, axes, True)
    return ops.divide(ops.multiply(t, clip_norm), ops.maximum(length, clip_norm))


def saturate_cast(value: kinds.tensor, dtype: kinds.dtype):
    """`tf.saturate_cast`."""
    low, high = (
        (np.iinfo(dtype).min, np.iinfo(dtype).max)
        if np.issubdtype(np.dtype(dtype), np.integer)
        else (float(np.finfo(dtype).min), float(np.finfo(dtype).max))
    )
    return ops.cast(ops.clip(value, low, high), dtype)


def squared_difference(x: kinds.operand, y: kinds.operand):
    """`(x - y)²`."""
    return ops.square(ops.subtract(*together(x, y)))


def add_n(inputs: kinds.operands):
    """The sum of a list."""
    total, *rest = together(*inputs)
    for value in rest:
        total = added(total, value)
    return total


def clip(t: kinds.tensor, clip_value_min: kinds.operand, clip_value_max: kinds.operand):
    """`tf.clip_by_value`."""
    _, low, high = together(t, clip_value_min, clip_value_max)
    return ops.clip(t, low, high)


def where(condition: kinds.operand, x: kinds.operand, y: kinds.operand):
    """`tf.where` of three arguments; of sizes, if it is known which."""
    if not kinds.is_tensor(condition):
        chosen = zip(condition, x, y, strict=True)
        return [one if kinds.boolean(which) else other for which, one, other in chosen]
    if any(map(kinds.is_tensor, (x, y))):
        x, y = together(x, y)
    return ops.where(condition, x, y)


def cast(x: kinds.operand, dtype: kinds.dtype):
    """`tf.cast`; towards zero, as everywhere."""
    if kinds.is_tensor(x):
        return ops.cast(x, dtype)
    if isinstance(x, list | sizes.Size):
        return sizes.combine(
            lambda size: ops.cast(size, dtype), lambda number: number, x
        )
    return np.asarray(x).astype(dtype)


def softmax(logits: kinds.tensor, axis: kinds.integer = -1):
    """`tf.nn.softmax`."""
    return ops.softmax(logits, axis=axis)


def log_softmax(logits: kinds.tensor, axis: kinds.integer = -1):
    """`tf.nn.log_softmax`."""
    return ops.log_softmax(logits, axis=axis)


def leaky_relu(features: kinds.tensor, alpha: kinds.number = 0.2):
    """`tf.nn.leaky_relu`."""
    return ops.leaky_relu(features, negative_slope=alpha)


def gelu(features: kinds.tensor, approximate: kinds.boolean = False):
    """`tf.nn.gelu`, which is exact unless told otherwise."""
    return ops.gelu(features, approximate=approximate)


def silu(features: kinds.tensor, beta: kinds.number = 1.0):
    """`tf.nn.silu`, with the factor of swish."""
    if beta == 1:
        return ops.silu(features)
    return ops.multiply(features, ops.sigmoid(ops.multiply(features, beta)))


def crelu(features: kinds.tensor, axis: kinds.integer = -1):
    """`tf.nn.crelu`."""
    return ops.concatenate([ops.relu(features), ops.relu(ops.negative(features))], axis)


def l2_normalize(
    x: kinds.tensor, axis: kinds.axes = None, epsilon: kinds.number = 1e-12
):
    """`tf.math.l2_normalize`: `x · rsqrt(max(Σx², epsilon))`."""
    total = ops.sum(ops.square(x), axis=axis, keepdims=True)
    return ops.multiply(x, ops.rsqrt(ops.maximum(total, epsilon)))


def norm(
    tensor: kinds.tensor,
    ord: kinds.anything = "euclidean",
    axis: kinds.axes = None,
    keepdims: kinds.boolean = False,
):
    """`tf.norm` of vectors."""
    if ord in ("euclidean", 2):
        return euclidean_norm(tensor, axis, keepdims)
    if ord == 1:
        return ops.sum(ops.abs(tensor), axis=axis, keepdims=keepdims)
    if ord == np.inf:
        return ops.max(ops.abs(tensor), axis=axis, keepdims=keepdims)
    raise ValueError(f"ord: expected 'euclidean', 1, 2 or inf, found {ord!r}")


def identity(input: kinds.operand):
    """What returns what it is given."""
    return input


def ensure_shape(x: kinds.tensor, shape: kinds.anything = None):
    """`tf.ensure_shape`, which checks and changes nothing."""
    return x


def identity_n(input: kinds.operands):
    """`tf.identity_n`."""
    return tuple(input)


def convert_to_tensor(
    value: kinds.operand, dtype: kinds.dtype = None, dtype_hint: kinds.anything = None
):
    """`tf.convert_to_tensor`, also of a list with tensors in it."""
    if isinstance(value, list) and any(map(kinds.is_tensor, value)):
        return ops.stack(value)
    return value if dtype is None else cast(value, dtype)


def cumulative(name):
    """Return `tf.cumsum` or `tf.cumprod`."""

    def function(
        x: kinds.tensor,
        axis: kinds.integer = 0,
        exclusive: kinds.boolean = False,
        reverse: kinds.boolean = False,
    ):
        x = ops.flip(x, axis) if reverse else x
        total = named(name)(x, axis=axis)
        if exclusive and name == "cumsum":
            total = ops.subtract(total, x)
        elif exclusive:
            raise ValueError("exclusive: expected False")
        return ops.flip(total, axis) if reverse else total

    return function


def scalar_mul(scalar: kinds.operand, x: kinds.operand):
    """`tf.math.scalar_mul`."""
    return ops.multiply(*together(scalar, x))


FUNCTIONS = {
    "math.scalar_mul": scalar_mul,
    "math.squared_difference": squared_difference,
    "math.add": add,
    "math.atan2": atan2,
    "math.xlogy": xlogy,
    "math.xdivy": xdivy,
    "math.multiply_no_nan": multiply_no_nan,
    "math.reduce_euclidean_norm": euclidean_norm,
    "math.zero_fraction": zero_fraction,
    "math.count_nonzero": count_nonzero,
    "truncatediv": truncated("div"),
    "truncatemod": truncated("mod"),
    "nn.l2_loss": l2_loss,
    "clip_by_norm": clip_by_norm,
    "dtypes.saturate_cast": saturate_cast,
    "zeros_like": like(0),
    "ones_like": like(1),
    "math.add_n": add_n,
    "math.cumsum": cumulative("cumsum"),
    "math.cumprod": cumulative("cumprod"),
    "clip_by_value": clip,
    "where": where,
    "cast": cast,
    "nn.softmax": softmax,
    "nn.log_softmax": log_softmax,
    "nn.leaky_relu": leaky_relu,
    "nn.gelu": gelu,
    "nn.silu": silu,
    "nn.crelu": crelu,
    "math.l2_normalize": l2_normalize,
    "norm": norm,
    "identity": identity,
    "ensure_shape": ensure_shape,
    "identity_n": identity_n,
    "convert_to_tensor": convert_to_tensor,
}
