"""Checks the arguments of `LossScaleOptimizer`; reads and writes its configs.

Plain Keras reads `initial_scale` and `dynamic_growth_steps`, and refuses other keys. It
ignores a key beside the config of the inner optimizer (tested in Keras 3.8 and 3.15,
`.keras` and HDF5). A rule that these two cannot express is stored under such a key:

    {"initial_scale": 128.0, "dynamic_growth_steps": 2147483647, "inner_optimizer": {
        "class_name": "SGD", "config": {...},
        "loss_scale": {"class_name": "FixedLossScale", "config": {...}}}}
"""

from typing import Any

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Config, CustomObjects
from keras_policies._common.warnings import warn
from keras_policies.loss_scaling import loss_scale as loss_scales
from keras_policies.loss_scaling.hyperparameters import SETTINGS
from keras_policies.loss_scaling.loss_scale import DynamicLossScale, LossScale

LOSS_SCALE = "loss_scale"
# The growth period, for plain Keras, of a rule without one: its counter is an int32.
NEVER = 2**31 - 1
# An attribute of inner optimizers that a user has wrapped. `compile` may wrap one again
# and again, and those of files may be wrapped to get another loss scale.
IS_WRAPPED = "_keras_policies_is_wrapped"
FORMER = (
    "keras_policies.experimental.LossScaleOptimizer takes the arguments of tf.keras "
    "and plain Keras."
)


class NotAnOptimizerError(TypeError, ValueError):
    """A TypeError, as in tf.keras from 2.4 on, and a ValueError, as up to 2.3."""


def check(inner: Any, others: dict[str, Any]) -> None:
    """Raise if `inner` cannot be wrapped, or if `others` are not Keras's defaults."""
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
            "scale the loss and the other divide the gradients by another scale. Use "
            f"the first one, or wrap a new optimizer. Received: {inner!r}"
        )
    if unknown := [name for name in others if name not in SETTINGS]:
        raise ValueError(
            f"LossScaleOptimizer does not take the arguments: `{'`, `'.join(unknown)}`."
            " Pass the loss scale as loss_scale: 'dynamic', a number, or "
            f"DynamicLossScale(initial_loss_scale, increment_period). {FORMER}"
        )
    for name, value in others.items():
        if value != SETTINGS[name]:
            raise ValueError(
                f"LossScaleOptimizer does not take {name}={value!r}. Set it on the "
                "`inner_optimizer`."
            )


def rule_for(loss_scale: loss_scales.LossScaleLike) -> LossScale:
    """Return the `LossScale` of the constructor's argument."""
    if isinstance(loss_scale, loss_scales.HOST_BOOLS):
        raise ValueError(
            f"loss_scale cannot be a bool. Received: loss_scale={loss_scale!r}. Pass "
            f"'dynamic', a number or a LossScale. {FORMER}"
        )
    rule = loss_scales.get(loss_scale)
    if rule is None:
        raise ValueError(
            "loss_scale cannot be None: there is nothing to scale. Use the inner "
            "optimizer itself, or pass 'dynamic', a number or a LossScale."
        )
    initial = rule.initial_loss_scale
    if not (loss_scales.is_real(initial) and 0 < initial <= loss_scales.FLOAT32_MAX):
        raise ValueError(
            "The initial_loss_scale of a LossScale must be positive and finite in "
            f"float32. Received: initial_loss_scale={initial!r} of {rule!r}."
        )
    return rule


def drop_loss_scale_factor(inner: keras.optimizers.Optimizer, rule: LossScale) -> None:
    """Set `loss_scale_factor` of an inner optimizer to None, with a warning."""
    if inner.loss_scale_factor is not None:
        warn(
            f"The inner optimizer has loss_scale_factor={inner.loss_scale_factor}, and "
            f"is wrapped with the loss scale {rule!r}. The loss scale is used; "
            "loss_scale_factor is set to None."
        )
        inner.loss_scale_factor = None


def stock_rule(initial_scale: float, growth_steps: int) -> LossScale:
    """Return the rule of a stock `LossScaleOptimizer`: no minimum, any period."""
    period = growth_steps if 0 < growth_steps < NEVER else NEVER
    return DynamicLossScale(initial_scale, period, minimum=min(initial_scale, 1.0))


def with_rule(config: Config, rule: LossScale) -> Config:
    """Add a rule that plain Keras lacks to a config; warn if it cannot be read back."""
    stock = stock_rule(config["initial_scale"], config["dynamic_growth_steps"])
    if rule == stock:
        return config
    written = loss_scales.serialize(rule)
    if loss_scales.class_of(written) is not type(rule):
        name = type(rule).__name__
        warn(
            f"A file cannot hold the loss scale {rule!r}, since Keras does not know "
            f"its class. A loaded optimizer will move it as {stock!r}. Decorate "
            f"{name} with @keras.saving.register_keras_serializable(), or read the "
            f"file with custom_objects={{{name!r}: {name}}}."
        )
    inner = {**config["inner_optimizer"], LOSS_SCALE: written}
    return {**config, "inner_optimizer": inner}


def has_rule(config: Config) -> bool:
    """Return whether a config, of whatever origin, was written by `with_rule`."""
    inner = config.get("inner_optimizer")
    return isinstance(inner, dict) and LOSS_SCALE in inner


def is_of_tf_keras(config: Config) -> bool:
    """Return whether tf.keras wrote a config; `dynamic` came with 2.4."""
    return "optimizer" in config or "dynamic" in config


def arguments(config: Config, custom_objects: CustomObjects) -> Config:
    """Return the arguments of `LossScaleOptimizer` for a config of any origin."""
    with keras_internals.custom_object_scope(custom_objects):
        if is_of_tf_keras(config):
            from keras_policies.legacy.plan import training

            written = {"class_name": "LossScaleOptimizer", "config": config}
            inner, rule, _ = training.unwrapped(written)
            inner, others = training.keras_optimizer(inner), {}
        else:
            others = dict(config)
            inner = dict(others.pop("inner_optimizer"))
            default = DynamicLossScale()
            initial = others.pop("initial_scale", default.initial_loss_scale)
            steps = others.pop("dynamic_growth_steps", default.increment_period)
            rule = _rule(inner.pop(LOSS_SCALE, None), stock_rule(initial, steps))
        optimizer = keras.saving.deserialize_keras_object(inner)
    return {"inner_optimizer": optimizer, "loss_scale": rule, **others}


def _rule(written: Config | None, stock: LossScale) -> LossScale:
    if written is None or loss_scales.class_of(written) is not None:
        return loss_scales.get(written) or stock
    name = written.get("class_name") if isinstance(written, dict) else None
    warn(
        f"The loss scale {written!r} has an unknown class, so the scale moves as "
        f"{stock!r}. To read it, pass custom_objects={{{name!r}: ...}}, or import the "
        "module that registers it."
    )
    return stock
