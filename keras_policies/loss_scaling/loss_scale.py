"""Loss scales: frozen settings, and the pure rule that moves a scale.

The loss is multiplied by the loss scale before the gradients are taken, so that small
float16 gradients do not underflow to zero (Micikevicius et al., "Mixed Precision
Training", 2018, https://arxiv.org/abs/1710.03740). The objects here hold settings
only; the scale that changes during training is a variable of the optimizer.
"""

import abc
import contextlib
import dataclasses
import math
import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeGuard, TypeVar

import numpy as np

from keras_policies._common import keras_names
from keras_policies._common.lazy_keras import keras, ops
from keras_policies._common.types import Config, Tensor

FLOAT32_MAX = float(np.finfo(np.float32).max)
HOST_BOOLS = bool, np.bool_  # their value is known, without a device
CURRENT = (  # what replaces the value that an object of tf.keras held
    "A loss scale holds settings only. The current scale belongs to the optimizer: "
    "float(optimizer.loss_scale)"
)
Kind = TypeVar("Kind", bound="LossScale")
State: TypeAlias = tuple[Tensor, Tensor]  # loss scale and good steps
Values: TypeAlias = tuple[Tensor, ...]  # scalars


class LossScale(abc.ABC):
    """Base class of all loss scales: settings, and a rule without side effects.

    Subclass it to write a rule of your own. `LossScaleOptimizer` owns the
    variables and calls `after_step` once per step, also in compiled code, so the
    method may use `keras.ops`, but no Python `if` on its arguments.

    Attributes:
        initial_loss_scale: float, the scale of the first step (unitless).
        skips_nonfinite: bool, whether to check gradients, and to skip a step with a
            NaN or infinite one. If False, gradients are never checked, and
            `after_step` is never called.
        increment_period: int, the finite steps in a row before the scale grows;
            None if the rule has no such number. In a file, it is for plain Keras.
        minimum: float, the smallest scale after an overflow; None if the rule has no
            such limit. `LossScaleLogger` warns when training halts there.

    Example:
    >>> class Halving(LossScale):
    ...     initial_loss_scale = 1024.0
    ...     def after_step(self, scale, good_steps, finite):
    ...         return ops.where(finite, scale, scale / 2), good_steps + 1
    ...     def get_config(self):
    ...         return {}
    >>> Halving() == Halving()
    True
    """

    initial_loss_scale: float
    skips_nonfinite: bool = True
    increment_period: int | None = None
    minimum: float | None = None

    @abc.abstractmethod
    def after_step(self, scale: Tensor, good_steps: Tensor, finite: Tensor) -> State:
        """Return `(scale, good_steps)` after one training step.

        Args:
            scale: float32 scalar, the current loss scale (unitless).
            good_steps: integer scalar, finite steps since the last change.
            finite: bool scalar, whether every gradient was finite.
        """

    @abc.abstractmethod
    def get_config(self) -> Config:
        """Return the constructor's arguments as a dict of plain values."""

    @classmethod
    def from_config(cls: type[Kind], config: Config) -> Kind:
        """Return the loss scale that `get_config` described."""
        return cls(**config)

    if not TYPE_CHECKING:  # what tf.keras had; the errors name the replacement

        def __call__(self):
            raise TypeError(f"{type(self).__name__} is not callable. {CURRENT}.")

        def __getattr__(self, name):
            hint = f" {CURRENT}, and apply moves it." if name == "update" else ""
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}.{hint}",
                name=name,
                obj=self,
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LossScale):
            return NotImplemented
        return type(self) is type(other) and self.get_config() == other.get_config()

    def __hash__(self) -> int:
        return hash((type(self), repr(sorted(self.get_config().items()))))

    def __repr__(self) -> str:
        settings = ", ".join(f"{k}={v!r}" for k, v in self.get_config().items())
        return f"{type(self).__name__}({settings})"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class FixedLossScale(LossScale):
    """A loss scale that never changes, and never skips a step.

    Args:
        loss_scale_value: int or float, at least 1 and finite (unitless).

    Raises:
        ValueError: if the value is not a number in this range.

    Example:
    >>> FixedLossScale(128)
    FixedLossScale(128.0)
    """

    loss_scale_value: float
    initial_loss_scale: float = dataclasses.field(init=False)

    skips_nonfinite = False

    def __post_init__(self) -> None:
        value = _number("loss_scale_value", self.loss_scale_value)
        if not 1 <= value <= FLOAT32_MAX:
            raise ValueError(
                "loss_scale_value must be at least 1 and finite in float32. "
                f"Received: loss_scale_value={self.loss_scale_value!r}. "
                "Use None for no loss scaling."
            )
        vars(self).update(loss_scale_value=value, initial_loss_scale=value)

    def after_step(self, scale: Tensor, good_steps: Tensor, finite: Tensor) -> State:
        """Return `scale` and `good_steps` unchanged."""
        return scale, good_steps

    def get_config(self) -> Config:
        return {"loss_scale_value": self.loss_scale_value}

    def __repr__(self) -> str:
        return f"FixedLossScale({self.loss_scale_value!r})"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class DynamicLossScale(LossScale):
    """A loss scale that falls on overflow and rises while gradients are finite.

    A step with a NaN or infinite gradient is skipped, and the scale is divided by
    `multiplier`, down to `minimum`. After `increment_period` finite steps in a row
    it is multiplied by `multiplier`, up to `maximum`. The rule is that of
    `tf.keras.mixed_precision.experimental.DynamicLossScale`; floor and ceiling
    are arguments here.

    Args:
        initial_loss_scale: int or float, the scale of the first step
            (unitless, positive and finite in float32). Choose a high one: it falls
            faster than it rises.
        increment_period: int, or a float of integral value, finite steps in a row
            before the scale grows.
        multiplier: int or float, at least 1. With 1 the scale stays, but steps
            with non-finite gradients are still skipped.
        minimum: int or float, the smallest scale after an overflow, at most
            `initial_loss_scale` (the default fits any). A minimum below 1 is for
            gradients that overflow float16 even unscaled. It must be positive, because
            a scale of 0 never grows again.
        maximum: int or float, the largest scale after growth. A scale whose next
            value would not be finite in float32 does not grow.

    Raises:
        ValueError: if an argument is not a number, or out of its range; if
            `initial_loss_scale` is not between `minimum` and `maximum`.

    Example:
    >>> rule = DynamicLossScale(1024, increment_period=2)
    >>> [float(x) for x in rule.after_step(1024.0, 1, finite=False)]
    [512.0, 0.0]
    >>> [float(x) for x in rule.after_step(1024.0, 1, finite=True)]
    [2048.0, 0.0]
    """

    initial_loss_scale: float = 2.0**15
    increment_period: int = 2000
    multiplier: float = 2.0
    _: dataclasses.KW_ONLY
    minimum: float = 1.0
    maximum: float = FLOAT32_MAX

    def __post_init__(self) -> None:
        for name in "initial_loss_scale", "minimum", "maximum", "multiplier":
            vars(self)[name] = _number(name, getattr(self, name))
            if name != "multiplier" and not 0 < vars(self)[name] <= FLOAT32_MAX:
                raise ValueError(
                    f"{name} must be positive and finite in float32: a scale of 0 "
                    f"never grows again. Received: {name}={getattr(self, name)!r}."
                )
        if not 1 <= self.multiplier <= FLOAT32_MAX:
            raise ValueError(
                "multiplier must be at least 1 and finite: an overflow divides "
                f"the scale by it. Received: multiplier={self.multiplier!r}."
            )
        vars(self)["increment_period"] = _period(self.increment_period)
        # tf.keras, whose minimum was 1, took smaller first scales.
        smallest = self.minimum if self.minimum != 1 else 0
        is_between = smallest <= self.initial_loss_scale <= self.maximum
        if self.minimum > self.maximum or not is_between:
            raise ValueError(
                "maximum must not be below minimum, and initial_loss_scale must be "
                f"between them. Received: minimum={self.minimum!r}, "
                f"maximum={self.maximum!r}, "
                f"initial_loss_scale={self.initial_loss_scale!r}."
            )

    def after_step(self, scale: Tensor, good_steps: Tensor, finite: Tensor) -> State:
        """Return `(scale, good_steps)` after one step; see `LossScale.after_step`.

        `good_steps` is 0 after a change and after an overflow.
        """
        counted = good_steps + 1
        full = counted >= self.increment_period

        def count() -> Values:
            return scale, counted

        def grow() -> Values:
            before = ops.convert_to_tensor(scale, dtype="float32")
            grown = before * self.multiplier
            limited = ops.minimum(grown, self.maximum)
            return ops.where(ops.isfinite(grown), limited, before), 0

        def shrink() -> Values:
            before = ops.convert_to_tensor(scale, dtype="float32")
            # Compilers would turn a constant divisor into its rounded reciprocal.
            (divisor,) = choose(finite, lambda: (1.0,), lambda: (self.multiplier,))
            shrunk = before / ops.convert_to_tensor(divisor, dtype="float32")
            # A scale below the minimum, which a file may have, does not rise.
            return ops.maximum(shrunk, ops.minimum(before, self.minimum)), 0

        return choose(finite, lambda: choose(full, grow, count), shrink)

    def get_config(self) -> Config:
        # Floor and ceiling only if they are set, so that tf.keras can read the rest.
        defaults = {"minimum": 1.0, "maximum": FLOAT32_MAX}
        config = dataclasses.asdict(self)
        return {k: v for k, v in config.items() if (k, v) not in defaults.items()}


def choose(
    condition: Tensor, then: Callable[[], Values], otherwise: Callable[[], Values]
) -> Values:
    """Return `then()` where a condition holds, `otherwise()` elsewhere.

    For a tensor, both are called; for a bool of Python or NumPy, only the chosen one.

    Example:
    >>> choose(True, lambda: (8.0, 1), lambda: (4.0, 0))
    (8.0, 1)
    """
    if isinstance(condition, HOST_BOOLS):
        return then() if condition else otherwise()
    pairs = zip(then(), otherwise(), strict=True)
    return tuple(ops.where(condition, a, b) for a, b in pairs)


# The loss scales of the package -> their names in tables.
KINDS: dict[type, str] = {FixedLossScale: "fixed", DynamicLossScale: "dynamic"}


def in_short(rule: LossScale, value: float | None = None) -> str:
    """Return a loss scale in two words, for tables: `"fixed, 128"`."""
    kind = KINDS.get(type(rule), type(rule).__name__)
    return f"{kind}, {rule.initial_loss_scale if value is None else value:.9g}"


# What `get` understands.
LossScaleLike: TypeAlias = str | float | LossScale | Config | None


def get(identifier: LossScaleLike) -> LossScale | None:
    """Return the loss scale for an identifier, or raise ValueError."""
    if identifier is None or isinstance(identifier, LossScale):
        return identifier
    if isinstance(identifier, str) and identifier == "dynamic":
        return DynamicLossScale()
    if is_real(identifier):
        return FixedLossScale(identifier)
    config = identifier.get("config") if isinstance(identifier, dict) else None
    reason = None
    if (cls := class_of(identifier)) and isinstance(config, dict):
        try:
            return cls.from_config(config)
        except TypeError as error:
            reason = error
    raise ValueError(
        f"Could not interpret loss scale identifier: {identifier!r}. Expected "
        "'dynamic', None, an int or float of at least 1 for a fixed scale, a "
        "LossScale, or its config if Keras knows its class."
    ) from reason


def serialize(rule: LossScale) -> Config:
    """Return the config dict of a loss scale, which `get` reads."""
    name = keras.saving.get_registered_name(type(rule))
    return {"class_name": name, "config": rule.get_config()}


def class_of(identifier: object) -> type[LossScale] | None:
    """Return the class of the loss scale in a config dict; None if it is unknown."""
    name = identifier.get("class_name") if isinstance(identifier, dict) else None
    if not isinstance(name, str):
        return None
    built_in = {cls.__name__: cls for cls in KINDS}
    cls = keras_names.registered(name) or built_in.get(name)
    return cls if isinstance(cls, type) and issubclass(cls, LossScale) else None


def is_real(value: object) -> TypeGuard[float]:
    """Return whether a value is a number, and not a bool."""
    return isinstance(value, numbers.Real) and not isinstance(value, HOST_BOOLS)


def _number(name: str, value: object) -> float:
    with contextlib.suppress(OverflowError):  # an int out of the range of floats
        if is_real(value) and not math.isnan(value):
            return float(value)
    raise ValueError(
        f"{name} must be a Python int or float, or a NumPy number; NaN, bools and ints "
        f"over 1e308 are not accepted. Received: {name}={value!r}."
    )


def _period(value: object) -> int:
    """Return a number of steps as an int; scripts also write it as `2e3`."""
    if is_real(value) and 0 < value < 2**31 and value == int(value):
        return int(value)
    raise ValueError(
        "increment_period must be an integer, 1 or more: the finite steps before the "
        f"scale grows. Received: increment_period={value!r}."
    )
