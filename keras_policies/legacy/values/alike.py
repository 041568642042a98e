"""Functions that all backends compute alike, and whose gradients are TensorFlow's.

Sums: on TensorFlow, from Keras 3.7 on, `ops.add` takes its second argument for a bias
if all of its axes but one have length 1, and the second or last axis of the first
argument is as long as that one (keras#20386). It then adds along the last axis if that
has the length, else along the second: `(1, 4, 1) + (1, 1, 4)` has four numbers.

Gradients: of `maximum(x, y)` where both are equal, TensorFlow gives the gradient to
`x`; torch and JAX give half of it to each, and JAX halves it at the limits of `clip`,
too. JAX has the gradient 1 for `abs` at 0, TensorFlow 0. Nets with clipped weights, and
ReLUs written as `maximum(x, 0)`, train at such numbers all the time.

Source: src/backend/tensorflow/numpy.py of Keras 3.15; `_MaximumMinimumGrad` and
`_AbsGrad` of tensorflow/python/ops/math_grad.py.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_policies._common.lazy_keras import keras
from keras_policies._common.lazy_keras import ops as keras_ops
from keras_policies._common.types import Tensor


def added(x: Tensor, y: Tensor) -> Tensor:
    """Add tensors; where a backend might add wrongly, as `x - (-y)`, equal to the bit.

    TensorFlow only negates signed numbers. Sums of unsigned ones have the same bits,
    and those of booleans are their `or`.
    """
    if is_added_alike(np.shape(x), np.shape(y)):
        return keras_ops.add(x, y)
    types = (getattr(value, "dtype", type(value)) for value in (x, y))
    dtype = str(keras.backend.result_type(*types))
    if dtype == "bool":
        return keras_ops.logical_or(x, y)
    if not dtype.startswith("uint"):
        return keras_ops.subtract(x, keras_ops.negative(keras_ops.cast(y, dtype)))
    x, y = (keras_ops.cast(value, dtype.removeprefix("u")) for value in (x, y))
    return keras_ops.cast(keras_ops.subtract(x, keras_ops.negative(y)), dtype)


def is_added_alike(shape: Sequence[int | None], other: Sequence[int | None]) -> bool:
    """Return whether every backend broadcasts two shapes as NumPy does.

    None stands for every length.

    Example:
        >>> is_added_alike((None, 3, 3), (None, 3, 1))  # for a batch of one
        False
        >>> is_added_alike((None, 3, 5), (5,))
        True
    """
    first = len(shape) - len(other)
    return len(shape) < 2 or all(
        _is_along(shape, first + axis, length, is_longer=first < 0)
        for axis, length in enumerate(other)
        if length != 1 and all(n in (None, 1) for i, n in enumerate(other) if i != axis)
    )


def _is_along(
    shape: Sequence[int | None], axis: int, length: int | None, *, is_longer: bool
) -> bool:
    """Return whether a vector along an axis is added along that axis."""
    if length is None and axis >= 0 and shape[axis] != 1:
        length = shape[axis]  # or 1
    second, last = (
        n != 1 and (n == length or None in (n, length)) for n in (shape[1], shape[-1])
    )
    if not (second or last):
        return True  # not taken for a bias
    if is_longer:
        return False
    if axis == len(shape) - 1:
        return shape[-1] not in (None, 1) or not second or len(shape) == 2
    return axis == 1 and not last


def maximum(x: Tensor, y: Tensor) -> Tensor:
    """Return the larger of two numbers; `x` has the gradient if they are equal."""
    return _extreme(x, y, "maximum", keras_ops.greater_equal, keras_ops.less)


def minimum(x: Tensor, y: Tensor) -> Tensor:
    """Return the smaller of two numbers; `x` has the gradient if they are equal."""
    return _extreme(x, y, "minimum", keras_ops.less_equal, keras_ops.greater)


def clip(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Return numbers between limits, as `tf.clip_by_value` does it."""
    if not _has_gradient(x):
        return keras_ops.clip(x, low, high)
    return maximum(minimum(x, high), low)


def absolute(x: Tensor) -> Tensor:
    """Return numbers without their signs; the gradient is 0 at 0."""
    if not _has_gradient(x):
        return keras_ops.abs(x)
    return keras_ops.multiply(x, keras_ops.stop_gradient(keras_ops.sign(x)))


def _extreme(
    x: Tensor,
    y: Tensor,
    name: str,
    is_first: Callable[..., Any],
    is_second: Callable[..., Any],
) -> Tensor:
    """Choose one of two numbers; if one is not a number, that one."""
    if not (_has_gradient(x) or _has_gradient(y)):
        return getattr(keras_ops, name)(x, y)
    if not isinstance(y, keras.KerasTensor) and not np.isnan(y).any():
        return keras_ops.where(is_second(x, y), y, x)
    first = is_first(x, y)
    if isinstance(x, keras.KerasTensor):
        first = keras_ops.logical_or(first, keras_ops.isnan(x))
    return keras_ops.where(first, x, y)


def _has_gradient(x: Tensor) -> bool:
    return isinstance(x, keras.KerasTensor) and "float" in str(x.dtype)
