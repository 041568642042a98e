"""Sums that are equal in plain Keras on all backends.

On TensorFlow, from Keras 3.7 on, `ops.add` takes its second argument for a bias if all
of its axes but one have length 1, and the second or last axis of the first argument is
as long as that one (keras#20386). It then adds along the last axis if that has the
length, else along the second: `(1, 4, 1) + (1, 1, 4)` has four numbers.

Source: src/backend/tensorflow/numpy.py of Keras 3.15.
"""

from collections.abc import Sequence

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
