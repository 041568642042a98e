"""Functions whose gradient at equal numbers is TensorFlow's on all backends.

Of `maximum(x, y)` where both are equal, TensorFlow gives the gradient to `x`; torch and
JAX give half of it to each, and JAX halves it at the limits of `clip`, too. JAX has the
gradient 1 for `abs` at 0, TensorFlow 0. Nets with clipped weights, and ReLUs written as
`maximum(x, 0)`, train at such numbers all the time.

Source: `_MaximumMinimumGrad` and `_AbsGrad` of tensorflow/python/ops/math_grad.py.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_policies._common.lazy_keras import keras
from keras_policies._common.lazy_keras import ops as keras_ops
from keras_policies._common.types import Tensor


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
