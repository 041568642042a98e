"""Reads the structure of legacy configs, and writes the objects of Keras 3."""

from typing import Any

from keras_policies.annotations import Config


def name_of(config: Config) -> str:
    """Return the name of a layer or model from its config."""
    inner = config.get("config")
    name = inner.get("name") if isinstance(inner, dict) else None
    return str(config.get("name") or name or config.get("class_name"))


def is_graph(config: Config) -> bool:
    """Return whether a model's config lists layers (Sequential or Functional)."""
    inner = config.get("config")
    return isinstance(inner, list) or (
        isinstance(inner, dict) and isinstance(inner.get("layers"), list)
    )


def inner_layers(config: Config) -> list[Config]:
    """Return the configs of the layers that a model lists; none for any other layer.

    Up to Keras 2.2.2 the config of a Sequential is that list itself. Entries that are
    no configs are left out; the plan refuses them.
    """
    if not is_graph(config):
        return []
    inner = config["config"]
    layers = inner if isinstance(inner, list) else inner["layers"]
    return [layer for layer in layers if isinstance(layer, dict)]


def keras_object(
    module: str | None, class_name: str, config: Any, registered_name: str | None = None
) -> Config:
    """Return the dict from which Keras 3 makes an object.

    Args:
        module: a public module of Keras such as `"keras.layers"`, or None for a class
            found by its registered name.
        class_name: name of the class, or `"function"`.
        config: dict, the arguments of its `from_config`; the name of a function.
        registered_name: name in the registry of custom objects.

    Source: keras/src/saving/serialization_lib.py, `serialize_keras_object`.
    """
    return {
        "module": module,
        "class_name": class_name,
        "config": config,
        "registered_name": registered_name,
    }


def keras_function(registered_name: str) -> Config:
    """Return the dict from which Keras 3 takes a function in the registry."""
    return keras_object("builtins", "function", registered_name, registered_name)
