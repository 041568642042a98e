"""Hyperparameters of the inner optimizer, read and set through the wrapper."""

import contextlib
import difflib
from collections.abc import Iterator
from typing import Any

import keras


class InnerSetting:
    """An attribute of a wrapper that is one of its inner optimizer."""

    def __init__(self, default: Any) -> None:
        self.default = default  # the value that Keras gives to it

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, wrapper: Any, owner: Any = None) -> Any:
        if wrapper is None:
            return self
        inner = _inner(wrapper)
        return self.default if inner is None else getattr(inner, self._name)

    def __set__(self, wrapper: Any, value: Any) -> None:
        inner = _inner(wrapper)
        if inner is not None:  # Keras's constructor sets defaults before there is one
            setattr(inner, self._name, value)


class InnerHyperparameters:
    """A wrapper's attributes: its own, and the hyperparameters of `inner_optimizer`."""

    is_wrapping = False  # until the constructor is done

    # Keras gives these to every optimizer. On a wrapper they would do nothing.
    weight_decay = InnerSetting(None)
    clipnorm = InnerSetting(None)
    global_clipnorm = InnerSetting(None)
    clipvalue = InnerSetting(None)
    use_ema = InnerSetting(default=False)
    ema_momentum = InnerSetting(0.99)
    ema_overwrite_frequency = InnerSetting(None)
    gradient_accumulation_steps = InnerSetting(None)

    def __getattr__(self, name: str) -> Any:
        if hasattr(type(self), name):  # a property of ours has failed: show its error
            return object.__getattribute__(self, name)
        inner = _inner(self)
        if inner is not None and _has(inner, name):
            return getattr(inner, name)
        raise AttributeError(_missing(self, inner, name), name=name, obj=self)

    def __dir__(self) -> list[str]:
        inner = _inner(self)
        passed_on = [name for name in dir(inner) if _has(inner, name)] if inner else []
        return sorted({*super().__dir__(), *passed_on})

    def __setattr__(self, name: str, value: Any) -> None:
        inner = _inner(self)
        # A user's subclass may have an attribute with such a name.
        is_ours = type(self).__module__.startswith("keras_policies.")
        if inner is None or name in vars(self) or hasattr(type(self), name):
            super().__setattr__(name, value)
        elif _has(inner, name):
            setattr(inner, name, value)
        elif is_ours and _nearest(inner, name):
            raise AttributeError(_missing(self, inner, name), name=name, obj=self)
        else:
            super().__setattr__(name, value)


# Name of each of these settings -> its default.
SETTINGS = {
    name: setting.default
    for name, setting in vars(InnerHyperparameters).items()
    if isinstance(setting, InnerSetting)
}


def _has(inner: keras.optimizers.Optimizer, name: str) -> bool:
    """Return whether an optimizer has a public attribute that is not a method."""
    is_property = isinstance(getattr(type(inner), name, None), property)
    return not name.startswith("_") and (name in vars(inner) or is_property)


@contextlib.contextmanager
def of_the_wrapper(wrapper: InnerHyperparameters) -> Iterator[None]:
    """Let a wrapper have attributes of its own alone, as Keras's `build` expects."""
    vars(wrapper)["is_wrapping"] = False
    try:
        yield
    finally:
        vars(wrapper)["is_wrapping"] = True


def _inner(wrapper: InnerHyperparameters) -> keras.optimizers.Optimizer | None:
    attributes = vars(wrapper)
    return attributes["inner_optimizer"] if attributes.get("is_wrapping") else None


def _nearest(inner: keras.optimizers.Optimizer, name: str) -> list[str]:
    if name.startswith("_"):
        return []
    return difflib.get_close_matches(name, vars(inner), 1, 0.8)


def _missing(
    wrapper: object, inner: keras.optimizers.Optimizer | None, name: str
) -> str:
    message = f"{type(wrapper).__name__!r} object has no attribute {name!r}"
    if inner is None or name.startswith("_"):
        return message
    nearest = _nearest(inner, name)
    meant = f" Did you mean {nearest[0]!r}?" if nearest else ""
    return f"{message}, nor has its inner optimizer, {type(inner).__name__}.{meant}"
