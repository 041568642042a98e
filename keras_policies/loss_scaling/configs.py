"""The configs of `LossScaleOptimizer`: ours, that of stock Keras, those of tf.keras.

Stock Keras reads `initial_scale` and `dynamic_growth_steps`, and refuses other keys. It
ignores a key beside the config of the inner optimizer (tried in Keras 3.8 and 3.15,
`.keras` and HDF5), so there stands a rule that these two do not say:

    {"initial_scale": 128.0, "dynamic_growth_steps": 2147483647, "inner_optimizer": {
        "class_name": "SGD", "config": {...},
        "loss_scale": {"class_name": "FixedLossScale", "config": {...}}}}
"""

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Config, CustomObjects
from keras_policies._common.warnings import warn
from keras_policies.loss_scaling import loss_scale as loss_scales
from keras_policies.loss_scaling.loss_scale import DynamicLossScale, LossScale

LOSS_SCALE = "loss_scale"
# The growth period, for stock Keras, of a rule without one: its counter is an int32.
NEVER = 2**31 - 1


def stock_rule(initial_scale: float, growth_steps: int) -> LossScale:
    """Return the rule of a stock `LossScaleOptimizer`, but for its missing minimum.

    Stock Keras takes any period. Its count never reaches some of them.
    """
    period = growth_steps if 0 < growth_steps < NEVER else NEVER
    return DynamicLossScale(initial_scale, period, minimum=min(initial_scale, 1.0))


def with_rule(config: Config, rule: LossScale) -> Config:
    """Return a config of stock Keras with a rule in it, if that is not stock Keras's.

    It warns if the config cannot be read back as this rule.
    """
    initial, steps = config["initial_scale"], config["dynamic_growth_steps"]
    if rule == stock_rule(initial, steps):
        return config
    written = loss_scales.serialize(rule)
    if loss_scales.class_of(written) is not type(rule):
        name = type(rule).__name__
        warn(
            f"A file cannot hold the loss scale {rule!r}, since Keras does not know "
            f"its class. From the file, the scale will move as "
            f"{stock_rule(initial, steps)!r}. Decorate {name} with "
            "@keras.saving.register_keras_serializable(), or read the file with "
            f"custom_objects={{{name!r}: {name}}}."
        )
    inner = {**config["inner_optimizer"], LOSS_SCALE: written}
    return {**config, "inner_optimizer": inner}


def has_rule(config: Config) -> bool:
    """Return whether a config, of whatever origin, was written by `with_rule`."""
    inner = config.get("inner_optimizer")
    return isinstance(inner, dict) and LOSS_SCALE in inner


def is_of_tf_keras(config: Config) -> bool:
    """Return whether tf.keras wrote the config of a `LossScaleOptimizer`."""
    return "optimizer" in config or "dynamic" in config


def arguments(config: Config, custom_objects: CustomObjects) -> Config:
    """Return the arguments of `LossScaleOptimizer` that a config stands for.

    `config` is ours, that of stock Keras, or that of tf.keras: `{"optimizer",
    "loss_scale"}` up to 2.3, `{"inner_optimizer", "dynamic", ...}` from 2.4 on. A
    config of ours may have more, which a subclass has written.
    """
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
    if written is None:
        return stock
    if loss_scales.class_of(written) is None:
        name = written.get("class_name") if isinstance(written, dict) else None
        warn(
            f"The loss scale {written!r} is of a class that is not known here, so the "
            f"scale moves as {stock!r}. To read it, pass "
            f"custom_objects={{{name!r}: ...}}, or import the module that registers it."
        )
        return stock
    return loss_scales.get(written) or stock
