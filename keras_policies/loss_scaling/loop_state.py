"""Training loops that scale and unscale themselves, and warnings about wrong ones."""

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras

from keras_policies._common.types import Tensor
from keras_policies._common.warnings import warn
from keras_policies.backends.running import backend
from keras_policies.loss_scaling.loss_scale import FixedLossScale, LossScale

METHODS = "scale_loss", "get_scaled_loss", "get_unscaled_gradients"  # to override
# Methods that a wrapper has of its own: it calls `apply` of its inner optimizer. On
# TensorFlow no optimizer has a `stateless_apply` that works.
BYPASSED = ["apply_gradients", "scale_loss"]
if keras.backend.backend() != "tensorflow":
    BYPASSED.append("stateless_apply")


def warn_if_constant(scale: keras.Variable | None, loss: Tensor, method: str) -> None:
    """Warn if code is being compiled that holds the present loss scale as a constant.

    A function under `jax.jit` reads a variable once, when it is traced, unless a
    `keras.StatelessScope` gives the variable a value: `stateless_apply` would move the
    scale, and the loss would be multiplied by the old one for ever.

    `loss` is about to be multiplied by the scale, or divided, in an optimizer's method.
    """
    if backend.is_constant(scale, loss):
        warn(
            f"{method} is compiled with the loss scale of this moment as a constant, "
            "and will not see it move. Build the optimizer, and call the method in "
            "`with keras.StatelessScope(state_mapping=[*zip(optimizer.variables, "
            "optimizer_variables)]):`, where optimizer_variables are those that "
            "stateless_apply is given."
        )


def warn_if_bypassed(inner: keras.optimizers.Optimizer) -> None:
    """Warn if an inner optimizer overrides a method that its wrapper never calls."""
    for name in BYPASSED:
        method = getattr(type(inner), name)
        if not method.__module__.startswith("keras."):
            warn(
                f"{type(inner).__name__} overrides {name}, which LossScaleOptimizer "
                "does not call: it calls apply of its inner optimizer. Override apply "
                "instead, to clip gradients, for example."
            )


class ScaledGradients:
    """Remembers whether an optimizer is given gradients of the scaled loss.

    It is, as in Keras 3, until `get_unscaled_gradients` is called as in tf.keras 2.
    From then on the loop passes what that returned, clipped or not, so the gradients
    cannot be recognized. Those that were passed to `get_unscaled_gradients` can: a loop
    that passes one of them to `apply` too means it as scaled.
    """

    def __init__(self) -> None:
        self._expects_unscaled = False
        self._passed: dict[int, weakref.ref[Any]] = {}
        self.is_in_override = False
        self.is_asked = False  # whether the loop has asked for the loss scale
        self._unasked_steps = 0

    @contextlib.contextmanager
    def in_override(self) -> Iterator[None]:
        """Run a method of a subclass, which may call the one that it overrides."""
        self.is_asked = True
        before, self.is_in_override = self.is_in_override, True
        try:
            yield
        finally:
            self.is_in_override = before

    @contextlib.contextmanager
    def unchanged(self) -> Iterator[None]:
        """Restore the expectations afterwards."""
        before = self._expects_unscaled, self._passed, self.is_asked
        try:
            yield
        finally:
            self._expects_unscaled, self._passed, self.is_asked = before

    def expect_scaled(self) -> None:
        """Take gradients for scaled from now on."""
        self._expects_unscaled = False

    def expect_unscaled(self, passed: Sequence[Tensor]) -> None:
        """Take gradients for unscaled from now on.

        Args:
            passed: list of tensors, the scaled gradients that the loop has unscaled.
        """
        self._expects_unscaled = True
        self._passed = {id(gradient): weakref.ref(gradient) for gradient in passed}

    def warn_if_not_asked(self, scaled: Sequence[Tensor], rule: LossScale) -> None:
        """Warn, once, if gradients are divided by a scale that nothing has asked for.

        A single step may be there to create the slots of the optimizer, so the second
        step is warned; a compiled one is the first that Python sees, and the last.

        Args:
            scaled: list of tensors, the gradients that this step divides.
            rule: the loss scale.
        """
        if not scaled or self.is_asked or rule == FixedLossScale(1):
            return
        self._unasked_steps += 1
        if self._unasked_steps == 2 or backend.is_traced(scaled[0]):
            self.is_asked = True
            warn(
                "LossScaleOptimizer divides the gradients by the loss scale, which is "
                f"{rule.initial_loss_scale:g} at first, but nothing has multiplied the "
                "loss by it: the weights will hardly move. Take the gradients of a "
                "scaled loss and unscale them (in a train_step, optimizer is "
                "self.optimizer):\n"
                "    scaled_loss = optimizer.get_scaled_loss(loss)\n"
                "    gradients = optimizer.get_unscaled_gradients(gradients)"
            )

    def are_scaled(
        self, grads: Sequence[Tensor], variables: Sequence[keras.Variable]
    ) -> list[bool]:
        """Return which of these gradients (tensors or None) are to be unscaled."""
        return list(map(self._is_scaled, grads, variables))

    def _is_scaled(self, grad: Tensor, variable: keras.Variable) -> bool:
        # float8 training passes a variable's new value as its gradient.
        if grad is None or getattr(variable, "overwrite_with_gradient", False):
            return False
        if not self._expects_unscaled:
            return True
        reference = self._passed.get(id(grad))
        return reference is not None and reference() is grad


def record_overrides(cls: type, base: type) -> None:
    """Let the overriding methods of a subclass record that they were called.

    Args:
        cls: subclass of `base`.
        base: the class whose own methods record this themselves.
    """
    for name in METHODS:
        method = getattr(cls, name)
        if method is not getattr(base, name) and not hasattr(method, "is_recording"):
            setattr(cls, name, _recording(name, method))


def _recording(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method, updated=())
    def call(self: Any, argument: Any, *args: Any, **kwargs: Any) -> Any:
        if name == "get_unscaled_gradients":
            argument = list(argument)
        with self._scaled.in_override():
            result = method(self, argument, *args, **kwargs)
        if name == "get_unscaled_gradients":
            self._scaled.expect_unscaled([g for g in argument if g is not None])
        elif name == "scale_loss":
            self._scaled.expect_scaled()
        return result

    call.is_recording = True  # type: ignore[attr-defined]
    return call
