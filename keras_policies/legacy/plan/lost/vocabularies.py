"""The vocabularies of lookup layers, by their paths in a rebuilt model."""

import collections
from collections.abc import Iterator, Mapping
from typing import Any

from keras_policies.legacy.base import configs
from keras_policies.legacy.base.model import Config, LegacyModel, Vocabulary
from keras_policies.legacy.base.recorded import Recorded
from keras_policies.legacy.plan.lost import recorded_layers


def renamed(legacy: LegacyModel, config: Config) -> Mapping[str, Vocabulary]:
    """Return the vocabularies of a file, also by the paths in a rebuilt model.

    Only a layer whose name no other lookup layer has can be found by it.
    """
    known = legacy.vocabularies
    if not known or legacy.recorded is None:
        return known
    layers = dict(_paths(config))
    names = {path: _name(legacy.recorded, path) for path in known}
    count = collections.Counter(names.values())
    by_name = {name: known[path] for path, name in names.items() if count[name] == 1}
    new = {path: by_name.get(path.rpartition("/")[2]) for path in layers}
    found = {path: own for path, own in new.items() if own is not None} | {**known}
    return found | {path: Vocabulary() for path, own in layers.items() if _is_made(own)}


def _name(recorded: Recorded, path: str) -> str:
    """Return the name of the layer at a path of names and attributes."""
    number, left = 0, path
    while left and number in recorded.layers:
        children = recorded_layers.by_name(recorded, number)
        children |= recorded.layers[number].children
        steps = (
            (len(edge), child)
            for edge, child in children.items()
            if edge and f"{left}/".startswith(f"{edge}/")
        )
        length, number = max(steps, default=(len(left), -1))
        left = left[length:].lstrip("/")
    layer = recorded.layers.get(number)
    return path.rpartition("/")[2] if layer is None else layer.name


def of_texts(config: Config) -> Iterator[str]:
    """Yield the layers of a model whose outputs are texts that were looked up."""
    layers = {configs.name_of(layer): layer["config"] for layer in config["layers"]}
    for name in _names(config["output_layers"]):
        if layers[name].get("invert") is True:
            yield name


def _names(outputs: Any) -> Iterator[str]:
    """Yield the layers in a nest of `[layer, call, position]`."""
    if isinstance(outputs, list) and outputs and isinstance(outputs[0], str):
        yield outputs[0]
        return
    for item in outputs.values() if isinstance(outputs, dict) else outputs:
        yield from _names(item)


def _is_made(config: Config) -> bool:
    """Return whether a layer was made of a table, with its vocabulary."""
    return isinstance(config.get("vocabulary"), list) and "trainable" not in config


def _paths(config: Config, prefix: str = "") -> Iterator[tuple[str, Config]]:
    """Yield the paths of the layers in a model, with their configs."""
    for layer in configs.inner_layers({"config": config}):
        path, inner = f"{prefix}{configs.name_of(layer)}", layer.get("config")
        if isinstance(inner, dict):
            yield path, inner
            yield from _paths(inner, f"{path}/")
