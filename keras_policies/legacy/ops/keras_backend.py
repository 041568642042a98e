"""`tf.keras.backend`: functions that no other namespace of TensorFlow has."""

import math

from keras_policies.late import ops
from keras_policies.legacy.ops import kinds
from keras_policies.legacy.ops.elementwise import together
from keras_policies.legacy.ops.kinds import Operand, Tensor
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
