"""Builds objects of user-defined classes under the policy that their config records.

Such a class makes layers without `dtype=`, which take the global policy. In tf.keras,
that was the policy of the program that made the model. Here, it is the policy in the
object's config while the object is created and built.
"""

import contextlib
import functools
from collections.abc import Mapping
from typing import Any

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Config, PolicyLike
from keras_policies.legacy.assembly import (
    explanations,
    extra_axes,
    forms,
    masks,
    programs,
)
from keras_policies.legacy.assembly.makers import Make, Maker, sequential
from keras_policies.legacy.base import hints
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


def _build_under(layer: keras.Layer, policy: PolicyLike | None) -> None:
    """Let a layer be built under a policy, since some only then make their layers."""
    stock = layer.build

    @functools.wraps(stock)
    def build(*args: Any, **kwargs: Any) -> Any:
        layer.build = stock
        with scope(policy):
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


def with_makers(
    config: Config,
    written_in: masks.Release,
    policy: PolicyLike | None,
    extra: extra_axes.Axes,
    found: forms.Found,
    built: programs.BuiltLayers,
) -> tuple[Config, dict[str, Maker]]:
    """Return a config that names makers for some layers, and the makers by name.

    The names are new, because Keras prefers registered classes to those in a scope.
    Convolutions record their calls in `extra`, layers that may need a form in `found`,
    programs in `built`. `policy` is that of the model, which its config does not have.
    """
    makers: dict[str, Maker] = {}

    def replaced(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [replaced(item) for item in value]
        if not isinstance(value, dict):
            return value
        inner = {key: replaced(item) for key, item in value.items()}
        stock = masks.maker(value, written_in) or extra_axes.maker(value, extra)
        stock = forms.maker(value, stock, found) or stock
        is_root, texts = value is config, built.texts
        cut = texts.maker(value, is_root=is_root) if texts else None
        of_model = (policy,) if is_root else ()
        own = _own_maker(value, cut, *of_model)
        make = programs.maker(value, built) or own or cut or stock
        make = make or sequential(value)
        if make is None:
            return inner
        name = f"<{value['class_name']} {len(makers)}>"
        makers[name] = Maker(make)
        return {**inner, "registered_name": name}

    return replaced(config), makers


def _own_maker(
    config: Mapping[str, Any], cut: Make | None, *of_model: PolicyLike | None
) -> Make | None:
    """Return the maker of an object of a user-defined class, or None for others.

    `cut` makes a model without text layers. `of_model` is the policy of the model.
    """
    name = config.get("registered_name")
    if not isinstance(name, str) or "config" not in config:
        return None
    found = keras.saving.get_registered_object(name)
    if not isinstance(found, type) or not issubclass(found, keras.Layer):
        return None
    cls: type[Any] = found
    options = config["config"] or {}
    # The name in the file, which the class may ignore.
    written = None if of_model else config.get("name") or options.get("name")
    policy = of_model[0] if of_model else options.get("dtype")
    layer = None if of_model else written or cls.__name__

    def make(config: Config) -> Any:
        with located(layer=layer), scope(policy):
            try:
                instance = (cut or cls.from_config)(config)
            except TypeError as error:
                raise _refusal(cls.__name__, config, error) from error
            if written is not None and instance.name != written:
                instance.name = written
        if isinstance(instance, keras.Layer) and not instance.built:
            _build_under(instance, policy)
        return instance

    return make
