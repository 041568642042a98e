"""The live objects of a model, from which all names in its code come.

A config says what a file said, so no name in it is looked up. Each dict in a config
that describes an object is matched with an object that the layer holds; a dict without
such an object is data.
"""

import dataclasses
import functools
import json
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np

from keras_policies._common.arguments import unsaved

# The modules whose names code may contain. The first that has a class names it.
MODULES = (
    *("layers", "ops", "initializers", "regularizers", "constraints", "optimizers"),
    *("optimizers.schedules", "losses", "metrics", "activations", "dtype_policies"),
    *("quantizers", "random", "ops.image", "ops.linalg", "ops.nn", "ops.numpy"),
)
TOP = "Input", "Model", "Sequential", "DTypePolicy"  # used as keras.Input, ...
OTHER = {"dtype": "dtype_policy"}  # attributes with other names than arguments
PLAIN = type(None), bool, int, float, str
# What configs say of objects that are no objects of Keras.
SPECIAL = {np.ndarray: "__numpy__", slice: "__slice__", type(...): "__ellipsis__"}
# Gives the same text for equal values, also for a list and a tuple.
text = functools.partial(json.dumps, sort_keys=True, default=repr)


@functools.cache
def public() -> dict[int, str]:
    """Return `{id of a class or function: its name in Keras}`."""
    found = dict[int, str]()
    for module in MODULES:
        folder = functools.reduce(getattr, module.split("."), keras)
        for name, thing in vars(folder).items():
            if getattr(thing, "__name__", None) == name and callable(thing):
                found.setdefault(id(thing), f"keras.{module}.{name}")
    return found | {id(getattr(keras, name)): f"keras.{name}" for name in TOP}


@functools.cache
def public_names() -> frozenset[str]:
    """Return all names that code may have from Keras, besides those of operations."""
    return frozenset(public().values())


def is_of_keras(thing: Any) -> bool:
    """Return whether a class or a function is one of Keras."""
    return f"{thing.__module__}.".startswith("keras.")


def public_name(thing: Any) -> str | None:
    """Return the name in Keras of a class or a function, such as `keras.layers.Dense`.

    Where a backend has its own class, as torch has for optimizers, it is its base's.
    So it is for the loss scaling optimizer of this package.
    """
    public_one = public_class(thing) if isinstance(thing, type) else thing
    return public().get(id(public_one))


def public_class(cls: type) -> type:
    """Return the class that `public_name` names, or the class itself if it has none."""
    if not (is_of_keras(cls) or cls.__module__.startswith("keras_policies.")):
        return cls
    same = (x for x in cls.__mro__ if x.__name__ == cls.__name__ and id(x) in public())
    return next(same, cls)


def own_module(thing: Any) -> str | None:
    """Return the module from which a user's class or function can be imported.

    It has been imported already, since its object is here: nothing is imported.
    """
    module, name = (getattr(thing, at, None) for at in ("__module__", "__name__"))
    is_private = module in (None, "__main__", "builtins") or f"{module}.".startswith(
        (".", "keras.")
    )
    found = None if is_private else sys.modules.get(str(module))
    is_there = found is not None and getattr(found, str(name), None) is thing
    return str(module) if is_there else None


def is_object(value: Any) -> bool:
    """Return whether a value in a config looks like the config of an object."""
    return isinstance(value, dict) and {"class_name", "config"} <= value.keys()


def is_model(value: Any, config: Mapping[str, Any]) -> bool:
    """Return whether an object is a model whose config lists its layers."""
    return isinstance(value, keras.Model) and isinstance(config.get("layers"), list)


def config_of(op: Any) -> dict[str, Any]:
    """Return the whole config of an object."""
    return _whole(op, keras.saving.serialize_keras_object(op)["config"])


def _whole(op: Any, config: dict[str, Any]) -> dict[str, Any]:
    """Return a config with what Keras leaves out: arguments, and vocabularies."""
    if isinstance(op, keras.Layer) and config.get("vocabulary", 0) is None:
        words = op.get_vocabulary(include_special_tokens=False)
        plain = [x.item() if isinstance(x, np.generic) else x for x in words]
        return {**config, "vocabulary": plain or None}
    return {**config, **unsaved(op, config)}


@dataclasses.dataclass(frozen=True, eq=False)
class Held:
    """A live object and its config, which may come from the config of its holder."""

    value: Any
    config: dict[str, Any]

    @functools.cached_property
    def arguments(self) -> dict[str, Any]:
        """The config with the objects that this one holds, in place of their configs.

        Other objects than those with a config, such as functions, are as they are.
        """
        return thawed(self.config, self.value)


def thawed(config: dict[str, Any], holder: Any, *others: Any) -> dict[str, Any]:
    """Return a config with what its holder holds in place of the configs of objects.

    It may hold them in objects of its own, `others`.
    """
    asked = {key: getattr(holder, OTHER.get(key, key), None) for key in config}
    attributes = [x for each in (holder, *others) for x in vars(each).values()]
    # Several objects may have equal configs: the one in the same place comes first.
    placed = dict[int, Any]()  # id of a config -> its object
    # Of a compiled model, `metrics` are not what `compile` was given: attributes first.
    for nest in (*(x for x in attributes if isinstance(x, dict)), asked):
        _place(config, nest, placed)

    @functools.cache
    def known() -> list[Any]:
        return [*held([*asked.values(), *attributes], 3)]

    def new(value: Any) -> Any:
        if is_object(value):
            found = placed.get(id(value))
            if found is None:
                found = next((x for x in known() if _is_of(x, value)), value)
            is_plain = not hasattr(found, "get_config")
            return found if is_plain else Held(found, _whole(found, value["config"]))
        if isinstance(value, dict):
            return {key: new(each) for key, each in value.items()}
        if isinstance(value, list | tuple) and not all(
            isinstance(x, PLAIN) for x in value
        ):
            return type(value)(map(new, value))
        if isinstance(value, str):  # perhaps the name of a registered function
            function = keras.saving.get_registered_object(value)
            is_held = function is not None and any(function is x for x in known())
            return function if is_held else value
        return value

    return {key: new(each) for key, each in config.items()}


def _place(config: Any, values: Any, placed: dict[int, Any]) -> None:
    """Map the ids of configs in a nest to the objects in the same places of another."""
    if is_object(config):
        if id(config) not in placed and _is_of(values, config):
            placed[id(config)] = values
    elif isinstance(config, dict) and isinstance(values, dict):
        for key in config.keys() & values.keys():
            _place(config[key], values[key], placed)
    elif isinstance(config, list | tuple) and isinstance(values, list | tuple):
        pairs = zip(config, values, strict=True) if len(config) == len(values) else ()
        for pair in pairs:
            _place(*pair, placed)


def has_data_like_objects(value: Any) -> bool:
    """Return whether Keras would take data in this value for the config of an object.

    It may do so where it creates an object from a config, and import what that names.
    """
    if isinstance(value, Held):
        value = value.arguments
    elif is_object(value):
        return True
    values = value.values() if isinstance(value, dict) else value
    is_nest = isinstance(value, dict | list | tuple)
    return is_nest and any(map(has_data_like_objects, values))


def _is_of(value: Any, config: dict[str, Any]) -> bool:
    """Return whether a config is that of a live object.

    A layer is known by its name: its config contains those of all layers below it.
    """
    own = config["config"]
    if _kind(value) != config["class_name"]:
        return False
    if isinstance(value, keras.Layer):
        return isinstance(own, dict) and own.get("name") == value.name
    if isinstance(value, types.FunctionType) and value.__name__ == "<lambda>":
        return True
    try:
        return text(keras.saving.serialize_keras_object(value)["config"]) == text(own)
    except Exception:  # no object of Keras: a scope, a lock
        return False


def _kind(value: Any) -> str:
    """Return what a config says of the class of a live object."""
    if isinstance(value, types.FunctionType):
        return "__lambda__" if value.__name__ == "<lambda>" else "function"
    is_tensor = keras.ops.is_tensor(value)
    return "__tensor__" if is_tensor else SPECIAL.get(type(value), type(value).__name__)


def held(value: Any, depth: int) -> Iterator[Any]:
    """Yield the objects in attributes and containers."""
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, list | tuple | set) and depth:
        for each in value:
            yield from held(each, depth - 1)
    elif not isinstance(value, PLAIN):
        yield value
