"""What `LossScaleOptimizer` is given: the forms of tf.keras 2 and of Keras 3."""

import keras

from keras_policies import loss_scale as loss_scales
from keras_policies.loss_scale import DynamicLossScale, FixedLossScale

# What Keras up to 3.5 wrote into the config, without any effect.
IGNORED_DEFAULTS = {
    "weight_decay": None,
    "clipnorm": None,
    "global_clipnorm": None,
    "clipvalue": None,
    "use_ema": False,
    "ema_momentum": 0.99,
    "ema_overwrite_frequency": None,
    "loss_scale_factor": None,
    "gradient_accumulation_steps": None,
}


def check_inner(inner):
    """Raise if `inner` is no optimizer, or one that scales the loss itself."""
    if isinstance(inner, keras.optimizers.LossScaleOptimizer):
        raise TypeError(
            f"The inner optimizer is itself a LossScaleOptimizer: {inner!r}. The "
            "loss would be scaled twice. Pass its inner_optimizer."
        )
    if not isinstance(inner, keras.optimizers.Optimizer):
        raise TypeError(
            '"inner_optimizer" must be an instance of keras.optimizers.Optimizer, '
            f"but got: {inner!r}. Pass keras.optimizers.get(...) of a name."
        )


def check_others(arguments):
    """Raise if there are arguments but those that Keras itself once wrote."""
    for argument, value in arguments.items():
        if argument not in IGNORED_DEFAULTS or value != IGNORED_DEFAULTS[argument]:
            raise ValueError(
                f"LossScaleOptimizer does not take {argument}={value!r}. Set it "
                "on the inner optimizer."
            )


def rule(loss_scale, dynamic, initial_scale, growth_steps):
    """Return the `LossScale` that these arguments of the constructor stand for."""
    if loss_scale is None:
        raise ValueError(
            "loss_scale is None, so there is nothing to scale. Use the inner "
            "optimizer itself, or pass 'dynamic', a number or a LossScale."
        )
    if loss_scale != "dynamic":
        if (dynamic, initial_scale, growth_steps) != (None, None, None):
            raise ValueError(
                "Pass either loss_scale, or dynamic, initial_scale and "
                f"dynamic_growth_steps, not both. Received: loss_scale={loss_scale!r}."
            )
        return loss_scales.get(loss_scale)
    if dynamic or dynamic is None:
        given = {"initial_loss_scale": initial_scale, "increment_period": growth_steps}
        return DynamicLossScale(**{k: v for k, v in given.items() if v is not None})
    if initial_scale is None or growth_steps is not None:
        raise ValueError(
            "With dynamic=False, pass initial_scale and not dynamic_growth_steps. "
            f"Received: initial_scale={initial_scale!r}, "
            f"dynamic_growth_steps={growth_steps!r}."
        )
    return FixedLossScale(initial_scale)
