"""Which gradients are still scaled: a loop of tf.keras 2 unscales them itself."""

import contextlib
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import keras

from keras_policies.annotations import Tensor


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

    @contextlib.contextmanager
    def in_override(self) -> Iterator[None]:
        """Run a method of a subclass, which may call the one that it overrides."""
        before, self.is_in_override = self.is_in_override, True
        try:
            yield
        finally:
            self.is_in_override = before

    @contextlib.contextmanager
    def unchanged(self) -> Iterator[None]:
        """Expect afterwards what was expected before."""
        before = self._expects_unscaled, self._passed
        try:
            yield
        finally:
            self._expects_unscaled, self._passed = before

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
