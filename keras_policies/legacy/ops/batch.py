"""Whether the first axis of a tensor is still the batch, as it was in the inputs."""

import keras

from keras_policies import keras_internals


def is_first(tensor):
    """Return whether no operation that led to a tensor has touched its first axis.

    Only then can a tensor be reshaped by example, when the batch is not known and one
    more size is not, either.
    """
    return tensor.shape[0] is None and all(
        isinstance(operation, keras.Layer)
        or keras_internals.keeps_first_axis(operation, inputs, outputs)
        for operation, inputs, outputs in keras_internals.calls_before(tensor)
    )
