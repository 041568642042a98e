"""Subclasses that scale losses and unscale gradients in their own way."""

import functools
from collections.abc import Callable
from typing import Any

METHODS = "scale_loss", "get_scaled_loss", "get_unscaled_gradients"


def record(cls: type, base: type) -> None:
    """Let the overriding methods of a subclass record that they were called.

    Args:
        cls: subclass of `base`.
        base: the class whose own methods record this themselves.
    """
    for name in METHODS:
        method = getattr(cls, name)
        if method is not getattr(base, name) and not hasattr(method, "is_recording"):
            setattr(cls, name, _recording(name, method))


def overrides(optimizer: object, base: type, name: str) -> bool:
    """Return whether the class of an optimizer overrides a method of `base`."""
    return getattr(type(optimizer), name) is not getattr(base, name)


def _recording(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method, updated=())
    def call(self: Any, given: Any, *args: Any, **kwargs: Any) -> Any:
        if name == "get_unscaled_gradients":
            given = list(given)
        with self._scaled.in_override():
            result = method(self, given, *args, **kwargs)
        if name == "get_unscaled_gradients":
            self._scaled.expect_unscaled([g for g in given if g is not None])
        elif name == "scale_loss":
            self._scaled.expect_scaled()
        return result

    call.is_recording = True  # type: ignore[attr-defined]
    return call
