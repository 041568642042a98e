"""The names of `tf.keras.mixed_precision.experimental` and `tf.mixed_precision`.

In many scripts only the import changes, to this or to
`import keras_policies.experimental as mixed_precision`.

Example:
    >>> from keras_policies import experimental as mixed_precision
    >>> mixed_precision.Policy("mixed_float16", loss_scale=128).loss_scale
    FixedLossScale(128.0)
"""

import keras

from keras_policies.loss_scaling.loss_scale import (
    DynamicLossScale,
    FixedLossScale,
    LossScale,
)
from keras_policies.loss_scaling.optimizer import LossScaleOptimizer
from keras_policies.policies.global_policy import global_policy, set_policy
from keras_policies.policies.policy import Policy

set_global_policy = set_policy

__all__ = [
    "DynamicLossScale",
    "FixedLossScale",
    "LossScale",
    "LossScaleOptimizer",
    "Policy",
    "get_layer_policy",
    "global_policy",
    "set_global_policy",
    "set_policy",
]


def get_layer_policy(layer: keras.Layer) -> keras.DTypePolicy:
    """Return the dtype policy of a layer.

    Raises:
        ValueError: if it is not a layer.

    Example:
    >>> get_layer_policy(keras.layers.Dense(2, dtype="float16")).name
    'float16'
    """
    if not isinstance(layer, keras.Layer):
        raise ValueError(
            f"get_layer_policy can only be called on a layer, but got: {layer!r}. Pass "
            "a keras.Layer."
        )
    return layer.dtype_policy
