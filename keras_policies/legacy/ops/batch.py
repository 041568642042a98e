"""Whether the first axis of a tensor is still the batch, as it was in the inputs."""

import math

import keras

from keras_policies import keras_internals


def is_first(tensor):
    """Return whether no operation that led to a tensor has touched its first axis.

    Only then can a tensor be reshaped by example, when the batch is not known and one
    more size is not, either.
    """
    return tensor.shape[0] is None and all(
        isinstance(operation, keras.Layer) or _keeps(operation, inputs, outputs)
        for operation, inputs, outputs in keras_internals.calls_before(tensor)
    )


def _keeps(operation, inputs, outputs):
    axes = getattr(operation, "axis", ())
    axes = axes if isinstance(axes, list | tuple) else [axes]
    rank = len(inputs[0].shape) if inputs else 0
    if any(axis is not None and axis in (0, -rank) for axis in axes):
        return False
    name = type(operation).__name__
    if name == "Reshape":
        sizes = inputs[0].shape[1:], outputs[0].shape[1:]
        return None not in sum(sizes, ()) and math.prod(sizes[0]) == math.prod(sizes[1])
    if name == "Transpose":
        return operation.axes is not None and operation.axes[0] == 0
    if name == "Tile":
        return len(operation.repeats) == rank and operation.repeats[0] == 1
    return name != "GetItem" or outputs[0].shape[:1] == inputs[0].shape[:1]
