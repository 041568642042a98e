"""The names of `tf.keras.mixed_precision.experimental` and `tf.mixed_precision`.

Many scripts need only a new import, this one or
`import keras_policies.experimental as mixed_precision`.

Example:
    >>> from keras_policies import experimental as mixed_precision
    >>> mixed_precision.Policy("mixed_float16", loss_scale=128).loss_scale
    FixedLossScale(128.0)
"""

from typing import Any

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Config
from keras_policies.loss_scaling import optimizer
from keras_policies.loss_scaling.loss_scale import (
    HOST_BOOLS,
    DynamicLossScale,
    FixedLossScale,
    LossScale,
    LossScaleLike,
)
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


class LossScaleOptimizer(optimizer.LossScaleOptimizer):
    """`keras_policies.LossScaleOptimizer`, with the arguments of each release.

    | release | arguments after the optimizer |
    |---|---|
    | tf.keras 2.0 to 2.3 | `loss_scale`: a number is a fixed scale |
    | tf.keras 2.4 to 2.15 | `dynamic=True, initial_scale, dynamic_growth_steps` |
    | Keras 3, by name | `initial_scale=2.0**15, dynamic_growth_steps=2000` |

    Args:
        inner_optimizer: `keras.optimizers.Optimizer` that makes the updates.
        loss_scale: as for `Policy`; or a bool, which means `dynamic`.
        initial_scale: float, the first loss scale, or the fixed one.
        dynamic_growth_steps: int, finite steps before a dynamic scale grows.
        dynamic: bool, whether the scale is dynamic.
        name: str or None, the optimizer's name.

    Raises:
        TypeError, ValueError: as from `keras_policies.LossScaleOptimizer`; ValueError
            if the arguments contradict each other.

    Example:
    >>> LossScaleOptimizer(keras.optimizers.SGD(), dynamic=False, initial_scale=64).rule
    FixedLossScale(64.0)
    >>> LossScaleOptimizer(keras.optimizers.SGD(), True, 64).rule.initial_loss_scale
    64.0
    """

    def __init__(
        self,
        inner_optimizer: keras.optimizers.Optimizer,
        loss_scale: LossScaleLike = "dynamic",
        initial_scale: float | None = None,
        dynamic_growth_steps: int | None = None,
        *,
        dynamic: bool | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(loss_scale, HOST_BOOLS):
            if dynamic is not None:
                raise ValueError(
                    "Pass dynamic once. Received it as the second argument, "
                    f"{loss_scale!r}, and by name, dynamic={dynamic!r}."
                )
            loss_scale, dynamic = "dynamic", bool(loss_scale)
        settings = dynamic, initial_scale, dynamic_growth_steps
        if settings != (None, None, None):
            if not isinstance(loss_scale, str) or loss_scale != "dynamic":
                raise ValueError(
                    "Pass either loss_scale, or dynamic, initial_scale and "
                    "dynamic_growth_steps, not both. Received: "
                    f"loss_scale={loss_scale!r}."
                )
            loss_scale = _loss_scale(*settings)
        super().__init__(inner_optimizer, loss_scale, name, **kwargs)


keras_internals.save_class_as(LossScaleOptimizer, "keras.optimizers.LossScaleOptimizer")


def _loss_scale(
    dynamic: bool | None, initial_scale: float | None, growth_steps: int | None
) -> LossScale:
    """Return the loss scale for the arguments of TF 2.4."""
    if dynamic or dynamic is None:
        given = {"initial_loss_scale": initial_scale, "increment_period": growth_steps}
        settings: Config = {k: v for k, v in given.items() if v is not None}
        return DynamicLossScale(**settings)
    if initial_scale is None:
        raise ValueError(
            '"initial_scale" must be specified if "dynamic" is False: it is the loss '
            "scale. You can also pass it as loss_scale."
        )
    if growth_steps is not None:
        raise ValueError(
            '"dynamic_growth_steps" must be None if "dynamic" is False, but got: '
            f"{growth_steps!r}. A fixed loss scale does not grow."
        )
    return FixedLossScale(initial_scale)


def get_layer_policy(layer: keras.Layer) -> keras.DTypePolicy:
    """Return the dtype policy of a layer.

    Raises:
        ValueError: if `layer` is not a `keras.Layer`.

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
