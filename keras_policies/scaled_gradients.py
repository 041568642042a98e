"""Which gradients are still scaled: a loop of tf.keras 2 unscales them itself."""

import contextlib
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import keras

from keras_policies import loops
from keras_policies.annotations import Tensor
from keras_policies.backends.running import backend
from keras_policies.loss_scale import FixedLossScale, LossScale


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
        """Expect and know afterwards what was expected and known before."""
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
            loops.warn_that_nothing_scales(rule)

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
