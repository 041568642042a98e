"""`tf.keras.backend`: functions that no other namespace of ValueFlow has."""

import math

import numpy as np

from keras_policies.legacy.ops import (
    array_creation,
    array_joining,
    array_shapes,
    array_values,
)
from keras_policies.legacy.ops.kinds import DType, Lengths, Value, Values
from keras_policies.legacy.ops.registry import op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.evaluator import dtype_of, is_tensor, ops


@op("keras.backend.batch_flatten")
def batch_flatten(x: Value) -> Value:
    """Reshape to two axes, of which the first is the batch."""
    batch, *lengths = computed.shape(x)
    return computed.reshape(x, [batch, math.prod(lengths)])


@op("keras.backend.binary_crossentropy")
def binary_crossentropy(
    target: Value, output: Value, from_logits: bool = False
) -> Value:
    """Return the cross entropy of independent classes."""
    return ops.binary_crossentropy(target, output, from_logits=from_logits)


@op("keras.backend.categorical_crossentropy")
def categorical_crossentropy(
    target: Value, output: Value, from_logits: bool = False, axis: int = -1
) -> Value:
    """Return the cross entropy of classes given as probabilities."""
    return ops.categorical_crossentropy(target, output, from_logits, axis)


@op("keras.backend.int_shape")
def int_shape(x: Value) -> tuple[int | None, ...]:
    """Return the shape as it is known."""
    return tuple(x.shape) if is_tensor(x) else np.shape(x)


@op("keras.backend.ndim")
def ndim(x: Value) -> int:
    """Return the number of axes."""
    return computed.rank(x)


@op("keras.backend.dtype")
def dtype(x: Value) -> str:
    """Return the name of the dtype."""
    return dtype_of(x)


@op("keras.backend.constant", "keras.backend.variable", "constant")
def constant(
    value: Value, dtype: DType | None = None, shape: Lengths | None = None
) -> Value:
    """Return an array."""
    value = value if dtype is None else ops.cast(value, dtype)
    if shape is None:
        return value
    is_one = math.prod(computed.shape(value)) == 1
    fit = computed.broadcast_to if is_one else computed.reshape
    return fit(value, shape)


@op("keras.backend.arange")
def arange(
    start: Value, stop: Value | None = None, step: Value = 1, dtype: DType = "int32"
) -> Value:
    """Return numbers from `start` to `stop`, or from 0 to `start`."""
    return array_creation.arange(start, stop, step, dtype)


@op("keras.backend.argmax")
def argmax(x: Value, axis: int = -1) -> Value:
    """Return the position of the largest item."""
    return ops.argmax(x, axis=axis)


@op("keras.backend.argmin")
def argmin(x: Value, axis: int = -1) -> Value:
    """Return the position of the smallest item."""
    return ops.argmin(x, axis=axis)


@op("keras.backend.concatenate")
def concatenate(tensors: Values, axis: int = -1) -> Value:
    """Join tensors along an axis, the last by default."""
    return array_joining.concat(tensors, axis)


@op("keras.backend.expand_dims")
def expand_dims(x: Value, axis: int = -1) -> Value:
    """Insert an axis of size 1, the last by default."""
    return array_shapes.expand_dims(x, axis)


@op("keras.backend.flatten")
def flatten(x: Value) -> Value:
    """Reshape to one axis."""
    return computed.reshape(x, [-1])


@op("keras.backend.repeat")
def repeat(x: Value, n: int) -> Value:
    """Repeat vectors along a new axis in the middle."""
    return ops.repeat(ops.expand_dims(x, 1), n, axis=1)


@op("keras.backend.repeat_elements")
def repeat_elements(x: Value, rep: int, axis: int) -> Value:
    """Repeat each item along an axis."""
    return ops.repeat(x, rep, axis=axis)


@op("keras.backend.switch", renamed={"then_tensor": "then_expression"})
def switch(condition: Value, then_expression: Value, else_expression: Value) -> Value:
    """Choose between two tensors, example by example if the condition has one axis."""
    return array_values.select(condition, then_expression, else_expression)
