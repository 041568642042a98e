"""Builds objects of user-defined classes under the policy that their config records.

Such a class makes layers without `dtype=`, which take the global policy. In tf.keras,
that was the policy of the program that made the model. Here, it is the policy in the
object's config while the object is created and built.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Config, PolicyLike
from keras_policies.legacy.assembly import explanations
from keras_policies.legacy.base import configs, hints
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.policies.global_policy import policy_scope


def _refusal(name: str, config: Config, error: TypeError) -> LegacyModelError:
    """Return the error that says how to change a class so that it accepts a config."""
    reason = explanations.innermost(error)
    arguments = f"these arguments, and **kwargs that it passes to {explanations.SUPER}"
    change = f"Give {name}.__init__ {arguments}."
    if "required positional argument" in reason:
        change = f"The file does not record them: give them defaults in {name}."
    return LegacyModelError(
        f"{name} cannot be made from its config, with {sorted(config)}: {reason}.",
        f"{change} If the model had another class, pass that one "
        f"({hints.CUSTOM_OBJECTS}).",
    )


def registered(config: Config) -> type[Any] | None:
    """Return the user-defined class of a layer's config, or None for other configs."""
    name = config.get("registered_name")
    if not isinstance(name, str) or "config" not in config:
        return None
    found = keras.saving.get_registered_object(name)
    is_layer = isinstance(found, type) and issubclass(found, keras.Layer)
    return found if is_layer else None


def is_graph(cls: type[Any], config: Config) -> bool:
    """Return whether Keras makes an object of a class from the layers in its config."""
    if not configs.is_graph(config):
        return False
    if issubclass(cls, keras.Sequential) or not issubclass(cls, keras.Model):
        return issubclass(cls, keras.Sequential)
    constructor = inspect.getfullargspec(cls.__init__)
    is_like_functional = constructor.args[1:] == ["inputs", "outputs", "name"]
    takes_all = bool(constructor.varargs and constructor.varkw)
    is_free = is_like_functional or takes_all or _has_own_from_config(cls)
    return is_free and "input_layers" in config["config"]


def _base(cls: type[Any]) -> Any:
    return keras.Sequential if issubclass(cls, keras.Sequential) else keras.Model


def _has_own_from_config(cls: type[Any]) -> bool:
    return bool(cls.from_config.__func__ is not _base(cls).from_config.__func__)


def from_config(
    cls: type[Any], make: Callable[[Config], Any]
) -> Callable[[Config], Any]:
    """Return `from_config` of a user's model class; `make` is that of Keras."""
    if not _has_own_from_config(cls):
        return make

    class Base(_base(cls)):  # type: ignore[misc]
        """What `super()` is in the user's `from_config`."""

        @classmethod
        def from_config(cls, config: Config, custom_objects: Any = None) -> Any:
            return make(config)

    class Made(cls, Base):  # type: ignore[misc]
        """Has the user's `from_config`; no object is made of it."""

    found: Callable[[Config], Any] = Made.from_config
    return found


@contextlib.contextmanager
def creating(
    cls: type[Any], config: Config, layer: str | None, policy: PolicyLike | None
) -> Iterator[None]:
    """Let an object be created under a policy, and explain errors about its config."""
    with located(layer=layer), scope(policy):
        try:
            yield
        except TypeError as error:
            raise _refusal(cls.__name__, config, error) from error


def build_under(layer: keras.Layer, policy: PolicyLike | None, inside: Config) -> None:
    """Let a layer be built under a policy, since some only then make their layers.

    `inside` has what stands for the classes of layers in its config.
    """
    stock = layer.build

    @functools.wraps(stock)
    def build(*args: Any, **kwargs: Any) -> Any:
        layer.build = stock
        with scope(policy), keras_internals.custom_object_scope(inside):
            return stock(*args, **kwargs)

    layer.build = build


def is_stock(layer: keras.Layer) -> bool:
    """Return whether the class of a layer is one of Keras."""
    return type(layer).__module__.startswith("keras.")


def stock_names(layer: keras.Layer) -> set[str]:
    """Return the names of the Keras classes that a layer consists of."""
    layers = [layer, *keras_internals.sublayers(layer)]
    names = {type(item).__name__ for item in layers if is_stock(item)}
    return names - {"Functional", "InputLayer", "Sequential"}


def scope(policy: PolicyLike | None) -> contextlib.AbstractContextManager[None]:
    """Return a scope of the global policy; None and integer policies change nothing."""
    if isinstance(policy, str):
        policy = keras.DTypePolicy(policy)
    dtype = getattr(policy, "compute_dtype", None)
    if policy is None or (dtype and not keras.backend.is_float_dtype(dtype)):
        return contextlib.nullcontext()
    return policy_scope(policy)
