"""Hyperparameters of the inner optimizer, read and set through the wrapper."""

import contextlib
import difflib
from collections.abc import Iterable, Iterator
from typing import Any

import keras

from keras_policies._common.types import Tensor
from keras_policies._common.warnings import warn

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
