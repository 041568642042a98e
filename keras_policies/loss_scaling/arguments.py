"""The arguments of `LossScaleOptimizer`, and their checks."""

from typing import Any

import keras

from keras_policies._common.warnings import warn
from keras_policies.loss_scaling import loss_scale as loss_scales
from keras_policies.loss_scaling.hyperparameters import SETTINGS
from keras_policies.loss_scaling.loss_scale import LossScale, LossScaleLike

# What Keras up to 3.5 wrote into the config, and never used.
IGNORED_DEFAULTS = {**SETTINGS, "loss_scale_factor": None}
# An attribute of inner optimizers that a user has wrapped. `compile` may wrap one again
# and again, and those of files may be wrapped to get another loss scale.
IS_WRAPPED = "_keras_policies_is_wrapped"
FORMER = (
    "keras_policies.experimental.LossScaleOptimizer takes the arguments of tf.keras "
    "and stock Keras."
)


class NotAnOptimizerError(TypeError, ValueError):
    """What was to be wrapped is not an optimizer.

    tf.keras raised a ValueError up to 2.3, and a TypeError from 2.4 on.
    """


def check_inner(inner: object) -> None:
    """Raise if `inner` is not an optimizer, or if the loss would be scaled twice."""
    if isinstance(inner, keras.optimizers.LossScaleOptimizer):
        raise TypeError(
            f"LossScaleOptimizer cannot wrap another LossScaleOptimizer: {inner!r}. "
            "The loss would be scaled twice. Pass its inner_optimizer."
        )
    if not isinstance(inner, keras.optimizers.Optimizer):
        raise NotAnOptimizerError(
            '"inner_optimizer" must be an instance of keras.optimizers.Optimizer, '
            f"but got: {inner!r}. Pass keras.optimizers.get(...) of a name."
        )
    if IS_WRAPPED in vars(inner):
        raise ValueError(
            '"inner_optimizer" is already wrapped by a LossScaleOptimizer. One could '
            "scale the loss and the other divide the gradients, by another scale. Use "
            f"the first one, or wrap a new optimizer. Received: {inner!r}"
        )


def drop_loss_scale_factor(inner: keras.optimizers.Optimizer, rule: LossScale) -> None:
    """Warn and set `loss_scale_factor` of an inner optimizer to None, if it is set."""
    if inner.loss_scale_factor is None:
        return
    warn(
        f"The inner optimizer has loss_scale_factor={inner.loss_scale_factor}, and is "
        f"wrapped with the loss scale {rule!r}. The latter wins: loss_scale_factor is "
        "set to None."
    )
    inner.loss_scale_factor = None


def check_others(arguments: dict[str, Any]) -> None:
    """Raise if there are arguments that Keras itself never wrote."""
    unknown = [name for name in arguments if name not in IGNORED_DEFAULTS]
    if unknown:
        raise ValueError(
            f"LossScaleOptimizer does not take the arguments: `{'`, `'.join(unknown)}`."
            " Pass the loss scale as loss_scale: 'dynamic', a number, or "
            f"DynamicLossScale(initial_loss_scale, increment_period). {FORMER}"
        )
    for argument, value in arguments.items():
        if value != IGNORED_DEFAULTS[argument]:
            raise ValueError(
                f"LossScaleOptimizer does not take {argument}={value!r}. Set it "
                "on the `inner_optimizer`."
            )


def rule(loss_scale: LossScaleLike) -> LossScale:
    """Return the `LossScale` that the argument of the constructor stands for."""
    if isinstance(loss_scale, loss_scales.HOST_BOOLS):
        raise ValueError(
            f"loss_scale cannot be a bool. Received: loss_scale={loss_scale!r}. Pass "
            f"'dynamic', a number or a LossScale. {FORMER}"
        )
    parsed = loss_scales.get(loss_scale)
    if parsed is None:
        raise ValueError(
            "loss_scale cannot be None: there is nothing to scale. Use the inner "
            "optimizer itself, or pass 'dynamic', a number or a LossScale."
        )
    initial = parsed.initial_loss_scale
    if not 0 < initial <= loss_scales.FLOAT32_MAX:
        raise ValueError(
            "The initial_loss_scale of a LossScale must be positive and finite in "
            f"float32. Received: initial_loss_scale={initial!r} of {parsed!r}."
        )
    return parsed
