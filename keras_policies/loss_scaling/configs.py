"""Checks the arguments of `LossScaleOptimizer`; reads and writes its configs.

Hyperparameters of the inner optimizer are read and set through the wrapper.

Plain Keras reads `initial_scale` and `dynamic_growth_steps`, and refuses other keys. It
ignores a key beside the config of the inner optimizer (tested in Keras 3.8 and 3.15,
`.keras` and HDF5). A rule that these two cannot express is stored under such a key:

    {"initial_scale": 128.0, "dynamic_growth_steps": 2147483647, "inner_optimizer": {
        "class_name": "SGD", "config": {...},
        "loss_scale": {"class_name": "FixedLossScale", "config": {...}}}}
"""

import contextlib
import difflib
from collections.abc import Iterable, Iterator
from typing import Any

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Config, CustomObjects, Tensor
from keras_policies._common.warnings import warn
from keras_policies.loss_scaling import loss_scale as loss_scales
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


# Settings that Keras gives every optimizer. A wrapper's own would do nothing; Keras up
# to 3.5 wrote them into its configs.
SETTINGS = {
    "weight_decay": None,
    "clipnorm": None,
    "global_clipnorm": None,
    "clipvalue": None,
    "use_ema": False,
    "ema_momentum": 0.99,
    "ema_overwrite_frequency": None,
    "gradient_accumulation_steps": None,
    "loss_scale_factor": None,
}


class InnerHyperparameters:
    """A wrapper's attributes: its own, and the hyperparameters of `inner_optimizer`."""

    inner_optimizer: keras.optimizers.Optimizer
    is_wrapping = False  # until the constructor is done

    def exclude_from_weight_decay(self, *args: Any, **kwargs: Any) -> None:
        self.inner_optimizer.exclude_from_weight_decay(*args, **kwargs)

    @property
    def iterations(self) -> Tensor:
        """integer scalar, the updates that the inner optimizer has made."""
        return self.inner_optimizer.iterations  # Keras 3.8 has its own count there

    def __getattr__(self, name: str) -> Any:
        if hasattr(type(self), name):  # a property of ours has failed: show its error
            return object.__getattribute__(self, name)
        if _has(inner := _inner(self), name):
            return getattr(inner, name)
        raise _missing(self, name, dir(self))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_passed_on(_inner(self))})

    def __setattr__(self, name: str, value: Any) -> None:
        inner = _inner(self)
        if name == "inner_optimizer" and inner is not None and value is not inner:
            warn(
                f"inner_optimizer is now another one, of {type(value).__name__}. The "
                "wrapper still saves and counts the variables of the first. Instead, "
                "compile with LossScaleOptimizer(new_optimizer, loss_scale)."
            )
        is_own = name in vars(self) or hasattr(type(self), name)
        if not is_own and _has(inner, name):
            setattr(inner, name, value)
            return
        # A user's subclass may have an attribute of a similar name.
        is_ours = type(self).__module__.startswith("keras_policies.")
        if is_ours and not is_own and _nearest(name, _passed_on(inner)):
            raise _missing(self, name, _passed_on(inner))
        super().__setattr__(name, value)


@contextlib.contextmanager
def own_settings(wrapper: InnerHyperparameters) -> Iterator[None]:
    """Hide the inner optimizer's attributes, which Keras would overwrite."""
    before = wrapper.is_wrapping
    vars(wrapper).update(SETTINGS, is_wrapping=False)
    try:
        yield
    finally:
        for name in SETTINGS:
            vars(wrapper).pop(name, None)
        vars(wrapper)["is_wrapping"] = before


def _inner(wrapper: InnerHyperparameters) -> keras.optimizers.Optimizer | None:
    return vars(wrapper)["inner_optimizer"] if wrapper.is_wrapping else None


def _has(inner: keras.optimizers.Optimizer | None, name: str) -> bool:
    """Return whether an optimizer has a public attribute that is not a method."""
    is_property = isinstance(getattr(type(inner), name, None), property)
    is_public = inner is not None and not name.startswith("_")
    return is_public and (name in vars(inner) or is_property)


def _passed_on(inner: keras.optimizers.Optimizer | None) -> list[str]:
    return [name for name in dir(inner) if _has(inner, name)]


def _nearest(name: str, names: Iterable[str]) -> list[str]:
    """Return the public name that was probably meant, or none."""
    public = [n for n in names if not (n.startswith("_") or name.startswith("_"))]
    return difflib.get_close_matches(name, public, 1, 0.8)


def _missing(wrapper: Any, name: str, names: list[str]) -> AttributeError:
    message = f"{type(wrapper).__name__!r} object has no attribute {name!r}"
    inner = _inner(wrapper)
    if inner is not None and not name.startswith("_"):
        meant = "".join(f" Did you mean {other!r}?" for other in _nearest(name, names))
        message += f", nor has its inner optimizer, {type(inner).__name__}.{meant}"
    return AttributeError(message, name=name, obj=wrapper)
