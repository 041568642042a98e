"""Convolutions with several batch axes: a Conv1D of images convolves each row.

tf.keras accepted such inputs from 2.3 on; Keras 3 needs a TimeDistributed for each:
the row "`Conv1D` to `Conv3D`" of docs/keras-faults.md.
"""

from collections.abc import Callable

import keras

from keras_policies._common.types import Tensor
from keras_policies.legacy.assembly import nodes

KINDS = "Conv1D", "Conv2D", "Conv3D"


def count(layer: keras.Layer, tensors: list[Tensor]) -> int:
    """Return the number of extra axes of the tensor that a layer is called on."""
    if type(layer).__name__ not in KINDS:
        return 0
    return max(0, len(tensors[0].shape) - int(layer.rank) - 2)


def wrapped(
    layer: keras.Layer,
    tensors: list[Tensor],
    form: Callable[[list[Tensor]], keras.Model | None],
) -> keras.Layer:
    """Return a convolution with a TimeDistributed of its name for each extra axis.

    The outermost has the activity regularizer, which Keras ignores inside. `form`
    returns what replaces the layer on some tensors, or None.
    """
    regularizer, layer.activity_regularizer = layer.activity_regularizer, None
    axes = count(layer, tensors)
    for _ in range(axes):
        tensors = nodes.steps(tensors)
    wrapper: keras.Layer = form(tensors) or layer
    for number in range(axes):
        wrapper = keras.layers.TimeDistributed(
            wrapper,
            name=layer.name,
            dtype=layer.dtype_policy,
            activity_regularizer=regularizer if number == axes - 1 else None,
        )
    return wrapper
