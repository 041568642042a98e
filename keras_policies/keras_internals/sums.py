"""Sums on TensorFlow, which Keras adds along a wrong axis for some shapes.

From Keras 3.7 on (keras#20386), `ops.add` takes its second argument for a bias if all
of its axes but one have length 1, and the second or the last axis of the first argument
is as long as that one. It then adds along the last axis if that has the length, else
along the second: `(2, 3, 3) + (3, 1)` is a sum along the last axis, and
`(1, 4, 1) + (1, 1, 4)` has four numbers. Layers add so, too: `Add`, and
`MultiHeadAttention` with `key_dim=1`.

Keras: src/backend/tensorflow/numpy.py.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_policies.keras_internals.places import SUMS, installs
from keras_policies.keras_internals.wrapping import Function, instead_of


@installs(SUMS)
def add_as_numpy() -> None:
    """Let Keras add as NumPy does, whatever the shapes are."""
    import tensorflow as tf
    from keras.src.backend.tensorflow import numpy

    @instead_of(numpy, "add")
    def add(stock: Function, x1: Any, x2: Any) -> Any:
        shapes = getattr(x1, "shape", ()), getattr(x2, "shape", ())
        if is_added_as_numpy_does(*shapes):
            return stock(x1, x2)
        dtype = keras.backend.result_type(x1.dtype, x2.dtype)
        return tf.add(*(ops.convert_to_tensor(x, dtype) for x in (x1, x2)))


def is_added_as_numpy_does(
    shape: Sequence[int | None], bias: Sequence[int | None]
) -> bool:
    """Return whether stock Keras broadcasts two shapes as NumPy does.

    Example:
        >>> is_added_as_numpy_does((2, 3, 3), (3, 1))
        False
        >>> is_added_as_numpy_does((2, 3, 5), (3, 1))
        True
    """
    long = [axis - len(bias) for axis, size in enumerate(bias) if size != 1]
    if len(shape) < 2 or len(long) != 1 or bias[long[0]] is None:
        return True  # not taken for a bias
    length = bias[long[0]]
    if length not in (shape[1], shape[-1]):
        return True
    added_along = -1 if shape[-1] == length else 1 - len(shape)
    return long == [added_along] and len(bias) <= len(shape)


if keras.backend.backend() == "tensorflow":
    add_as_numpy()
