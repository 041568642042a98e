"""The live objects of a model, from which all names in its code come.

A config says what a file said, so no name in it is looked up. Each dict in a config
that describes an object is matched with an object that the layer holds and that has
exactly this config; a dict without such an object is data.
"""

import functools
import itertools
import json
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np

# The modules whose names code may contain. The first that has a class names it.
MODULES = (
    *("layers", "ops", "initializers", "regularizers", "constraints", "optimizers"),
    *("optimizers.schedules", "losses", "metrics", "activations", "dtype_policies"),
    *("quantizers", "random", "ops.image", "ops.linalg", "ops.nn", "ops.numpy"),
)
TOP = "Input", "Model", "Sequential", "DTypePolicy"  # used as keras.Input, ...
# Argument -> the attribute with its object, where that has another name.
ATTRIBUTES = {"dtype": "dtype_policy", "layer": "forward_layer"}
PLAIN = type(None), bool, int, float, str
NOT_HELD = *PLAIN, type, types.ModuleType, types.MethodType, keras.KerasTensor
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


def is_of_keras(thing: Any) -> bool:
    """Return whether a class or a function is one of Keras."""
    return f"{thing.__module__}.".startswith("keras.")


def public_name(thing: Any) -> str | None:
    """Return the name in Keras of a class or a function, such as `keras.layers.Dense`.

    Where a backend has its own class, as torch has for optimizers, it is its base's.
    """
    if not is_of_keras(thing):
        return None
    classes = thing.__mro__ if isinstance(thing, type) else [thing]
    same = (x for x in classes if x.__name__ == thing.__name__ and id(x) in public())
    return next((public()[id(each)] for each in same), None)


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
    """Return the config of an object, with the vocabulary of a lookup layer."""
    config: dict[str, Any] = _serialized(op)["config"]
    if isinstance(op, keras.Layer) and config.get("vocabulary", 0) is None:
        words = op.get_vocabulary(include_special_tokens=False)
        plain = [x.item() if isinstance(x, np.generic) else x for x in words]
        config["vocabulary"] = plain or None
    return config


def thawed(value: Any, holder: Any, key: str) -> Any:
    """Return an argument in the config of `holder`, with its objects, not configs."""
    names = ATTRIBUTES.get(key), key, f"_{key}"
    found = (getattr(holder, name, None) for name in names if name)
    return _thawed(value, [*found], holder)


def has_data_like_objects(value: Any) -> bool:
    """Return whether Keras would take data in this value for the config of an object.

    It may do so where it creates an object from a config, and import what that names.
    """
    if isinstance(value, dict):
        return is_object(value) or any(map(has_data_like_objects, value.values()))
    if isinstance(value, list | tuple):
        return any(map(has_data_like_objects, value))
    if isinstance(value, NOT_HELD) or not hasattr(value, "get_config"):
        return False
    config = config_of(value)
    layers = getattr(value, "layers", ()) if "layers" in config else ()
    nests = (thawed(x, value, key) for key, x in config.items() if key != "layers")
    return any(map(has_data_like_objects, (*nests, *layers)))


def _thawed(value: Any, candidates: list[Any], holder: Any) -> Any:
    if is_object(value):
        others = (x for x in _held(vars(holder), 3) if _is_named(x, value))
        known = itertools.chain(candidates, others)  # the others only if needed
        return next((x for x in known if _is_of(x, value)), value)
    if isinstance(value, dict):
        return {
            key: _thawed(x, [*_items(candidates, key)], holder)
            for key, x in value.items()
        }
    if isinstance(value, list | tuple) and not all(isinstance(x, PLAIN) for x in value):
        pairs = ((x, [*_items(candidates, at)]) for at, x in enumerate(value))
        return type(value)(_thawed(x, others, holder) for x, others in pairs)
    if isinstance(value, str):  # perhaps the name of a registered function
        known = keras.saving.get_registered_object(value)
        is_held = known is not None and any(each is known for each in candidates)
        return known if is_held else value
    return value


def _is_named(value: Any, config: Mapping[str, Any]) -> bool:
    is_function = isinstance(value, types.FunctionType)
    name = "function" if is_function else type(value).__name__
    return bool(config["class_name"] == name)


def _is_of(value: Any, config: Mapping[str, Any]) -> bool:
    """Return whether a config is that of a live object."""
    if isinstance(value, (*NOT_HELD, dict, list, tuple)):
        return False
    is_function = isinstance(value, types.FunctionType)
    if config["class_name"] == "__lambda__":
        return is_function and value.__name__ == "<lambda>"
    try:
        own = _serialized(value)
    except Exception:  # no object of Keras: a scope, a lock
        return False
    return all(text(own[key]) == text(config[key]) for key in ("class_name", "config"))


def _items(candidates: list[Any], key: Any) -> Iterator[Any]:
    for each in candidates:
        if isinstance(each, Mapping):
            yield each.get(key)
        elif (
            isinstance(each, list | tuple) and isinstance(key, int) and key < len(each)
        ):
            yield each[key]


def _held(value: Any, depth: int) -> Iterator[Any]:
    """Yield the objects in attributes and containers."""
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, list | tuple | set) and depth:
        for each in value:
            yield from _held(each, depth - 1)
    elif not isinstance(value, PLAIN):
        yield value


def _serialized(value: Any) -> Any:
    is_known = hasattr(value, "get_config") or isinstance(
        value, types.FunctionType | np.ndarray | slice | type(...)
    )
    if not (is_known or keras.ops.is_tensor(value)):
        raise TypeError(f"{type(value)} is no object of Keras")
    return keras.saving.serialize_keras_object(value)
