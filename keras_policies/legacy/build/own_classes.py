"""Builds objects of user-defined classes under the policy that their config records.

Such a class makes layers of its own without `dtype=`, and these take the global policy.
In tf.keras that was the policy of the program that made the model. Here it is the
policy in the object's config, while the object is made and built.
"""

import contextlib
import functools
from collections.abc import Mapping
from typing import Any

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Config, PolicyLike
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.build import (
    explanations,
    extra_axes,
    forms,
    masks,
    programs,
)
from keras_policies.legacy.build.makers import Maker
from keras_policies.policies.global_policy import policy_scope


def _refusal(name: str, config: Config, error: TypeError) -> LegacyModelError:
    """Return the error that says how a class can be changed to take a config."""
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
    """Let a layer be built under a policy: some make their own layers only then."""
    stock = layer.build

    @functools.wraps(stock)
    def build(*args: Any, **kwargs: Any) -> Any:
        layer.build = stock
        with scope(policy):
            return stock(*args, **kwargs)

    layer.build = build


def is_stock(layer: keras.Layer) -> bool:
    """Return whether the class of a layer is Keras's own."""
    return type(layer).__module__.startswith("keras.")


def stock_names(layer: keras.Layer) -> set[str]:
    """Return the names of the classes of Keras that a layer consists of."""
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
    """Return a config that names a maker for some layers, and the makers by name.

    Those are the user-defined layers, the stock ones that change masks, convolutions,
    which note what they find in `extra`, those that `forms` may replace, which note it
    in `found`, and programs, which note it in `built`. The names are new, since Keras
    prefers registered classes to those of a scope. `policy` is the model's own, which
    its config does not record.
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
        of_model = (policy,) if value is config else ()
        texts = built.texts
        cut = texts.maker(value, is_root=value is config) if texts else None
        own = _own_maker(value, cut, *of_model)
        maker = programs.maker(value, built) or own or cut or stock
        if maker is None:
            return inner
        name = f"<{maker.cls.__name__} {len(makers)}>"
        makers[name] = maker
        return {**inner, "registered_name": name}

    return replaced(config), makers


def _own_maker(
    config: Mapping[str, Any], cut: Maker | None, *of_model: PolicyLike | None
) -> Maker | None:
    """Return the maker of an object whose class is the user's, None for any other.

    `cut` makes a model without its layers of texts. `of_model` is the policy of the
    model itself, which its config does not record.
    """
    name = config.get("registered_name")
    if not isinstance(name, str) or "config" not in config:
        return None
    found = keras.saving.get_registered_object(name)
    if not isinstance(found, type) or not issubclass(found, keras.Layer):
        return None
    cls: type[Any] = found
    options = config["config"] or {}
    # The name that the file records, which the class may not take.
    written = None if of_model else config.get("name") or options.get("name")
    policy = of_model[0] if of_model else options.get("dtype")
    layer = None if of_model else written or cls.__name__

    def make(config: Config) -> Any:
        with located(layer=layer), scope(policy):
            try:
                instance = (cut or cls).from_config(config)
            except TypeError as error:
                raise _refusal(cls.__name__, config, error) from error
            if written is not None and instance.name != written:
                instance.name = written
        if isinstance(instance, keras.Layer) and not instance.built:
            _build_under(instance, policy)
        return instance

    return Maker(cls, make)
