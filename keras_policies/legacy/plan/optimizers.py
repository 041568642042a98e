"""Converts the optimizer of a legacy `training_config`."""

from typing import Any

from keras_policies import loss_scale as loss_scales
from keras_policies.annotations import Config
from keras_policies.legacy.base.names import without_package
from keras_policies.legacy.plan import classes
from keras_policies.loss_scale import DynamicLossScale, FixedLossScale, LossScale

LOSS_SCALE_OPTIMIZERS = (
    "LossScaleOptimizer",  # 2.0 to 2.3, and 2.4 and on
    "LossScaleOptimizerV1",  # 2.4 to 2.8, from the experimental API
    "LossScaleOptimizerV3",  # 2.11 and on
)
# Settings of tf.keras optimizers that Keras 3 does not have.
DROPPED = "decay", "is_legacy_optimizer", "jit_compile", "schedule_decay"
RENAMED = {"lr": "learning_rate"}
SCHEDULES = "keras.optimizers.schedules"


def unwrapped(optimizer: Config) -> tuple[Config, LossScale | None, bool]:
    """Return `(optimizer, loss scale around it or None, whether it is experimental)`.

    Raises:
        ValueError: if the recorded loss scale is no loss scale.
    """
    name, config = optimizer.get("class_name"), optimizer.get("config") or {}
    if without_package(str(name)) not in LOSS_SCALE_OPTIMIZERS:
        return optimizer, None, False
    inner = config.get("inner_optimizer") or config.get("optimizer") or {}
    if "loss_scale" in config:  # 2.0 to 2.3
        return inner, loss_scales.get(config["loss_scale"]), True
    return inner, _loss_scale(config), name == "LossScaleOptimizerV1"


def _loss_scale(config: Config) -> LossScale:
    """Return the loss scale of a LossScaleOptimizer of 2.4 or later."""
    initial: Any = config.get("initial_scale")
    if not config.get("dynamic", True):
        return FixedLossScale(initial)
    rule = DynamicLossScale()
    return DynamicLossScale(
        initial or rule.initial_loss_scale,
        config.get("dynamic_growth_steps") or rule.increment_period,
    )


def keras_optimizer(written: Config) -> Config:
    """Return the Keras 3 config of an optimizer; `decay` becomes a schedule."""
    given = written.get("config") or {}
    settings = {RENAMED.get(k, k): v for k, v in given.items() if k not in DROPPED}
    rate = settings.get("learning_rate")
    # Nadam called the schedule of its momentum by this name.
    decay = None if written.get("class_name") == "Nadam" else given.get("decay")
    if decay and not isinstance(rate, dict):
        slower = {"initial_learning_rate": rate, "decay_steps": 1, "decay_rate": decay}
        rate = {"class_name": "InverseTimeDecay", "config": slower}
    if isinstance(rate, dict):
        settings["learning_rate"] = classes.object_in(SCHEDULES, rate)
    if settings.get("epsilon", "") is None:
        del settings["epsilon"]
    return classes.object_in("keras.optimizers", {**written, "config": settings})
