"""The arguments of `LossScaleOptimizer`: those of tf.keras 2 and those of Keras 3."""

import weakref
from typing import Any

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Config, CustomObjects
from keras_policies._common.warnings import warn
from keras_policies.loss_scaling import loss_scale as loss_scales
from keras_policies.loss_scaling.hyperparameters import SETTINGS
from keras_policies.loss_scaling.loss_scale import (
    HOST_BOOLS,
    DynamicLossScale,
    FixedLossScale,
    LossScale,
    LossScaleLike,
)

# The growth period of a rule without one. Stock Keras knows no scale that never grows.
NEVER = 2**31 - 1

# What Keras up to 3.5 wrote into the config, and never used.
IGNORED_DEFAULTS = {**SETTINGS, "loss_scale_factor": None}


# Inner optimizers that a user has wrapped. Not those of `compile`, which may wrap one
# again and again, and of files, which users wrap to give them another loss scale.
wrapped: weakref.WeakSet[keras.optimizers.Optimizer] = weakref.WeakSet()


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
    if inner in wrapped:
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
        )
    for argument, value in arguments.items():
        if value != IGNORED_DEFAULTS[argument]:
            raise ValueError(
                f"LossScaleOptimizer does not take {argument}={value!r}. Set it "
                "on the `inner_optimizer`."
            )


def without_inner(config: Config) -> Config:
    """Return a config of the wrapper without settings read from the inner optimizer.

    Older releases, such as Keras 3.8, write them and accept only their defaults.
    """
    return {key: IGNORED_DEFAULTS.get(key, value) for key, value in config.items()}


def of_tf_24(
    loss_scale: LossScaleLike,
    name: str | float | None,
    dynamic: bool | None,
    initial_scale: float | None,
) -> tuple[LossScaleLike, str | float | None, bool | None, float | None]:
    """Return these arguments, with those that TF 2.4 took by position moved into place.

    There, the second and third were `dynamic`, known by its bool, and `initial_scale`.
    """
    if not isinstance(loss_scale, HOST_BOOLS):
        return loss_scale, name, dynamic, initial_scale
    if dynamic is not None:
        raise ValueError(
            "Pass dynamic once. Received it as the second argument, "
            f"{loss_scale!r}, and by name, dynamic={dynamic!r}."
        )
    if name is None or isinstance(name, str):
        return "dynamic", name, bool(loss_scale), initial_scale
    if initial_scale is not None:
        raise ValueError(
            "Pass initial_scale once. Received it as the third argument, "
            f"{name!r}, and by name, initial_scale={initial_scale!r}."
        )
    return "dynamic", None, bool(loss_scale), name


def fixed_if_it_never_grows(config: Config) -> Config:
    """Return a config of stock Keras's class; a scale that never grows is fixed."""
    steps, scale = config.get("dynamic_growth_steps"), config.get("initial_scale")
    if steps is None or 0 < steps < NEVER or scale is None or scale < 1:
        return config
    rest = {k: v for k, v in config.items() if k != "dynamic_growth_steps"}
    return {**rest, "dynamic": False}


def is_of_tf_keras(config: Config) -> bool:
    """Return whether tf.keras wrote the config of a `LossScaleOptimizer`."""
    return "optimizer" in config or "dynamic" in config


def of_tf_keras(config: Config, custom_objects: CustomObjects) -> Config:
    """Return the config of a `LossScaleOptimizer` of Keras 3.

    `config` is one, or that of tf.keras: `{"optimizer", "loss_scale"}` up to 2.3,
    `{"inner_optimizer", "dynamic", ...}` from 2.4 on. Its `loss_scale` is then an
    argument of ours.
    """
    if not is_of_tf_keras(config):
        return config
    from keras_policies.legacy.plan import training

    written = {"class_name": "LossScaleOptimizer", "config": config}
    inner, scale, _ = training.unwrapped(written)
    with keras_internals.custom_object_scope(custom_objects):
        converted = training.keras_optimizer(inner)
    return {"inner_optimizer": converted, "loss_scale": scale}


def rule(
    loss_scale: LossScaleLike,
    dynamic: bool | None,
    initial_scale: float | None,
    growth_steps: int | None,
) -> LossScale:
    """Return the `LossScale` that these arguments of the constructor stand for."""
    parsed = loss_scales.get(loss_scale)
    if parsed is None:
        raise ValueError(
            "loss_scale cannot be None: there is nothing to scale. Use the inner "
            "optimizer itself, or pass 'dynamic', a number or a LossScale."
        )
    if loss_scale != "dynamic":
        if (dynamic, initial_scale, growth_steps) != (None, None, None):
            raise ValueError(
                "Pass either loss_scale, or dynamic, initial_scale and "
                f"dynamic_growth_steps, not both. Received: loss_scale={loss_scale!r}."
            )
        return parsed
    if dynamic or dynamic is None:
        names = "initial_loss_scale", "increment_period"
        passed = zip(names, (initial_scale, growth_steps), strict=True)
        settings: Config = {name: value for name, value in passed if value is not None}
        return DynamicLossScale(**settings)
    if initial_scale is None:
        raise ValueError(
            '"initial_scale" must be specified if "dynamic" is False: it is the loss '
            "scale. Or pass that as loss_scale."
        )
    if growth_steps is not None:
        raise ValueError(
            '"dynamic_growth_steps" must be None if "dynamic" is False, but got: '
            f"{growth_steps!r}. A fixed loss scale does not grow."
        )
    return FixedLossScale(initial_scale)
