"""`tf.keras.backend`: functions that no other namespace of TensorFlow has."""

import math
from typing import Any

import numpy as np

from keras_policies.late import ops
from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import array_joining, array_shapes, kinds
from keras_policies.legacy.ops.elementwise import together
from keras_policies.legacy.ops.kinds import DType, Operand, Operands, Tensor
from keras_policies.legacy.ops.registry import op


@op("keras.backend.batch_flatten")
def batch_flatten(x: Tensor) -> Tensor:
    """Reshape to two axes, of which the first is the batch."""
    return ops.reshape(x, (-1, math.prod(kinds.integers(x.shape[1:]))))


@op("keras.backend.binary_crossentropy")
def binary_crossentropy(
    target: Operand, output: Operand, from_logits: bool = False
) -> Tensor:
    """Return the cross entropy of independent classes."""
    target, output = together(target, output)
    return ops.binary_crossentropy(target, output, from_logits=from_logits)


@op("keras.backend.categorical_crossentropy")
def categorical_crossentropy(
    target: Operand, output: Operand, from_logits: bool = False, axis: int = -1
) -> Tensor:
    """Return the cross entropy of classes given as probabilities."""
    target, output = together(target, output)
    return ops.categorical_crossentropy(target, output, from_logits, axis)


@op("keras.backend.int_shape")
def int_shape(x: Tensor) -> tuple[int | None, ...]:
    """Return the shape as it is known."""
    return tuple(x.shape)


@op("keras.backend.ndim")
def ndim(x: Tensor) -> int:
    """Return the number of axes."""
    return len(x.shape)


@op("keras.backend.dtype")
def dtype_of(x: Tensor) -> str:
    """Return the name of the dtype."""
    return str(x.dtype)


@op("keras.backend.constant", "keras.backend.variable", "constant")
def constant(value: Operand, dtype: DType | None = None, shape: object = None) -> Any:
    """Return an array."""
    found = kinds.array(value)
    found = found if dtype is None else found.astype(dtype)
    if shape is None:
        return found
    lengths = kinds.integers(shape)
    budget.spend(math.prod(lengths), found.itemsize)
    return (
        np.broadcast_to(found, lengths) if found.size == 1 else found.reshape(lengths)
    )


@op("keras.backend.arange")
def arange(
    start: float, stop: float | None = None, step: float = 1, dtype: DType = "int32"
) -> Any:
    """Return numbers from `start` to `stop`, or from 0 to `start`."""
    first, last = (0, start) if stop is None else (start, stop)
    budget.spend(abs(last - first) / abs(step), 8)
    return np.arange(first, last, step, dtype=dtype)


@op("keras.backend.argmax")
def argmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return the position of the largest item."""
    return ops.argmax(x, axis=axis)


@op("keras.backend.argmin")
def argmin(x: Tensor, axis: int = -1) -> Tensor:
    """Return the position of the smallest item."""
    return ops.argmin(x, axis=axis)


@op("keras.backend.concatenate")
def concatenate(tensors: Operands, axis: int = -1) -> Operand:
    """Join tensors along an axis, the last by default."""
    return array_joining.concat(tensors, axis)


@op("keras.backend.expand_dims")
def expand_dims(x: Operand, axis: int = -1) -> Operand:
    """Insert an axis of size 1, the last by default."""
    return array_shapes.expand_dims(x, axis)


@op("keras.backend.flatten")
def flatten(x: Tensor) -> Tensor:
    """Reshape to one axis."""
    return ops.reshape(x, (-1,))


@op("keras.backend.repeat")
def repeat(x: Tensor, n: int) -> Tensor:
    """Repeat vectors along a new axis in the middle."""
    return ops.repeat(ops.expand_dims(x, 1), n, axis=1)


@op("keras.backend.repeat_elements")
def repeat_elements(x: Tensor, rep: int, axis: int) -> Tensor:
    """Repeat each item along an axis."""
    return ops.repeat(x, rep, axis=axis)


@op("keras.backend.switch", renamed={"then_tensor": "then_expression"})
def switch(
    condition: Operand, then_expression: Operand, else_expression: Operand
) -> Operand:
    """Choose between two tensors, example by example if the condition has one axis."""
    chosen = together(then_expression, else_expression)
    for _ in range(np.ndim(chosen[0]) - np.ndim(condition)):
        condition = ops.expand_dims(condition, -1)
    return ops.where(condition, *chosen)
