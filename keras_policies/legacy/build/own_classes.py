"""Builds objects of user-defined classes under the policy that their config records.

Such a class makes layers of its own without `dtype=`, and these take the global policy.
In tf.keras that was the policy of the program that made the model. Here it is the
policy in the object's config, while the object is made and built.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, TypeAlias

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Config, PolicyLike
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.build import (
    explanations,
    extra_axes,
    forms,
    masks,
    programs,
)
from keras_policies.policies.global_policy import policy_scope


@dataclasses.dataclass(frozen=True, eq=False)
class Maker:
    """Takes the place of a user's class while Keras makes an object from a config."""

    cls: type[Any]
    policy: PolicyLike | None  # of the config
    layer: str | None  # its name, for errors; None for the model itself
    name: str | None = None  # that the file records, which the class may not take

    def from_config(self, config: Config) -> Any:
        """Return the object, made under its policy; Keras calls this."""
        with located(layer=self.layer), scope(self.policy):
            try:
                instance = self.cls.from_config(config)
            except TypeError as error:
                raise _refusal(self.cls.__name__, config, error) from error
            if self.name is not None and instance.name != self.name:
                instance.name = self.name
        if isinstance(instance, keras.Layer) and not instance.built:
            _build_under(instance, self.policy)
        return instance


StockMaker: TypeAlias = masks.Maker | extra_axes.Maker | forms.Maker
Makers: TypeAlias = dict[str, Maker | StockMaker | programs.Maker]


def _refusal(name: str, config: Config, error: TypeError) -> LegacyModelError:
    """Return the error that says how a class can be changed to take a config."""
    reason = explanations.innermost(error)
    arguments = f"these arguments, and **kwargs that it passes to {explanations.SUPER}"
    change = f"Give {name}.__init__ {arguments}."
    if "required positional argument" in reason:
        change = f"The file does not record them: give them defaults in {name}."
    return LegacyModelError(
        f"{name} cannot be made from its config, with {sorted(config)}: {reason}.",
        f"{change} If the model had another class, pass that one in custom_objects "
        "(--custom-objects).",
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
) -> tuple[Config, Makers]:
    """Return a config that names a maker for some layers, and the makers by name.

    Those are the user-defined layers, the stock ones that change masks, convolutions,
    which note what they find in `extra`, those that `forms` may replace, which note it
    in `found`, and programs, which note it in `built`. The names are new, since Keras
    prefers registered classes to those of a scope. `policy` is the model's own, which
    its config does not record.
    """
    makers: Makers = {}

    def replaced(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [replaced(item) for item in value]
        if not isinstance(value, dict):
            return value
        inner = {key: replaced(item) for key, item in value.items()}
        stock: StockMaker | None = masks.maker(value, written_in)
        stock = stock or extra_axes.maker(value, extra)
        stock = forms.maker(value, stock, found) or stock
        maker = programs.maker(value, built) or _own_maker(value) or stock
        if maker is None:
            return inner
        if value is config and isinstance(maker, Maker):
            maker = dataclasses.replace(maker, policy=policy, layer=None, name=None)
        name = f"<{maker.cls.__name__} {len(makers)}>"
        makers[name] = maker
        return {**inner, "registered_name": name}

    return replaced(config), makers


def _own_maker(config: Mapping[str, Any]) -> Maker | None:
    """Return the maker of a layer whose class is the user's, None for any other."""
    name = config.get("registered_name")
    if not isinstance(name, str) or "config" not in config:
        return None
    cls = keras.saving.get_registered_object(name)
    if not isinstance(cls, type) or not issubclass(cls, keras.Layer):
        return None
    options = config["config"] or {}
    name = config.get("name") or options.get("name")
    return Maker(cls, options.get("dtype"), name or cls.__name__, name)
