"""Runs the source code of a model, and compares what it builds with the model."""

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import keras

from keras_policies._common.types import Path
from keras_policies.source.graphs import Module
from keras_policies.source.objects import Style, fresh_name, is_object, is_operation

# What follows from the rest, and a policy of Sequential that is not saved.
DERIVED = {"build_config", "compile_config", "build_input_shape", "shared_object_id"}


def next_style(
    text: str, model: keras.Model, value: Any, module: Module, constants: Path | None
) -> Style:
    """Run a module; return its style if it builds an equal model, or the next to try.

    Raises:
        ValueError: if no style is left.
    """
    current = module.style
    starts = {
        kind: _number(fresh_name(kind)) + 1 for kind, _ in module.objects.automatic
    }
    namespace: dict[str, Any] = {"__name__": "model", "__file__": str(constants)}
    try:
        exec(compile(text, "model.py", "exec"), namespace)
        built = namespace["build_model"]()
    except Exception as error:
        if current.explicit:
            raise ValueError(
                f"The source code of {model.name!r} fails: {error}"
            ) from error
        return dataclasses.replace(current, explicit=True)
    new = keras.saving.serialize_keras_object(built)
    reason = next(_differences(_normal(value, current), _normal(new, current)), None)
    if reason is None and _weights(built) != _weights(model):
        reason = "layers that several inner models share have weights of their own"
    if reason is not None and current.explicit:
        raise ValueError(
            f"No source code builds a model equal to {model.name!r}: {reason}."
        )
    if reason is not None:
        return dataclasses.replace(current, explicit=True)
    pairs = zip(_names(value), _names(new), strict=True)
    other = {
        kind
        for (kind, old), (_, made) in pairs
        if old != made and old != _renumbered(made, starts.get(kind, 0))
    }
    if other <= current.named:
        return current
    return dataclasses.replace(current, named=current.named | other)


def _number(name: str) -> int:
    match = re.search(r"_(\d+)$", name)
    return int(match[1]) if match else 0


def _renumbered(name: str, start: int) -> str:
    """Return the name that a layer has in a process that made no layers before."""
    number, base = _number(name) - start, re.sub(r"_\d+$", "", name)
    return f"{base}_{number}" if number else base


def _weights(model: keras.Model) -> list[Any]:
    frozen = {id(weight) for weight in model.non_trainable_weights}
    return [(w.shape, w.dtype, id(w) in frozen) for w in model.weights]


def _names(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the class and the name of each layer, not of operations."""
    if isinstance(value, dict):
        is_layer = is_object(value) and isinstance(value["config"], dict)
        is_op = is_layer and is_operation(value)
        if is_layer and not is_op and "name" in value["config"]:
            yield value["class_name"], value["config"]["name"]
        for each in value.values():
            yield from _names(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _names(each)


def _normal(value: Any, style: Style, places: Any = None) -> Any:
    """Return a config without names, and with numbers in the place of layers."""
    if isinstance(value, list | tuple):
        if len(value) == 3 and isinstance(value[0], str) and value[0] in (places or ()):
            return [places[value[0]], *value[1:]]
        return [_normal(each, style, places) for each in value]
    if not isinstance(value, dict):
        return value
    if is_object(value) and isinstance(value["config"], dict):
        inner, layers = places, value["config"].get("layers")
        if isinstance(layers, list) and "output_layers" in value["config"]:
            inner = {each["name"]: n for n, each in enumerate(layers)}
        config = {**value["config"], "name": None}
        if value["class_name"] == "GetItem" and "inbound_nodes" in value:
            args, key = value["inbound_nodes"][0]["args"]
            key = [*key] if isinstance(key, list | tuple) else [key]
            is_whole = is_object(key[-1]) and key[-1]["class_name"] == "__ellipsis__"
            config["key"] = key[:-1] if is_whole else key
            value = {**value, "inbound_nodes": args}
        if value["class_name"] == "Sequential":
            del config["dtype"]
        value = {**value, "name": None, "config": ""}
        return {
            **_normal(value, style, places),
            "config": _normal(config, style, inner),
        }
    return {
        key: _normal(each, style, places)
        for key, each in value.items()
        if key not in DERIVED
        and (style.train or not key.endswith("_initializer"))
        and not (key in ("mask", "training") and each is None)
    }


def _differences(old: Any, new: Any, path: str = "model") -> Iterator[str]:
    """Yield where two configs differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from _differences(old.get(key), new.get(key), f"{path}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, pair in enumerate(zip(old, new, strict=True)):
            yield from _differences(*pair, f"{path}[{number}]")
    elif repr(old) != repr(new):
        yield f"{path} is {str(new)[:200]}, expected {str(old)[:200]}"
