"""Whether the first axis of a tensor is still the batch axis of the model's inputs."""

import math
from collections.abc import Sequence

import keras

from keras_policies import keras_internals
from keras_policies.annotations import Tensor


def is_first(tensor: Tensor) -> bool:
    """Return whether no operation that led to a tensor has changed its first axis.

    Only then can each example be reshaped by itself, which is the way when the batch
    size and one more size are unknown.
    """
    return tensor.shape[0] is None and all(
        isinstance(operation, keras.Layer) or _keeps(operation, inputs, outputs)
        for operation, inputs, outputs in keras_internals.calls_before(tensor)
    )


def _keeps(
    operation: keras.Operation, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> bool:
    """Return whether an operation leaves the first axis as it is."""
    axes = getattr(operation, "axis", ())
    axes = axes if isinstance(axes, list | tuple) else [axes]
    rank = len(inputs[0].shape) if inputs else 0
    if any(axis is not None and axis in (0, -rank) for axis in axes):
        return False
    name = type(operation).__name__
    if name == "Reshape":
        old, new = inputs[0].shape[1:], outputs[0].shape[1:]
        return None not in old + new and math.prod(old) == math.prod(new)
    if name == "Transpose":
        return operation.axes is not None and operation.axes[0] == 0
    if name == "Tile":
        return len(operation.repeats) == rank and operation.repeats[0] == 1
    return name != "GetItem" or outputs[0].shape[:1] == inputs[0].shape[:1]
