"""The vocabularies of lookup layers, by their paths in a rebuilt model."""

import collections
from collections.abc import Iterator, Mapping

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
    names = {path: _name(legacy.recorded, path) for path in known}
    count = collections.Counter(names.values())
    by_name = {name: known[path] for path, name in names.items() if count[name] == 1}
    new = {path: by_name.get(path.rpartition("/")[2]) for path in _paths(config)}
    return {path: own for path, own in new.items() if own is not None} | {**known}


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


def _paths(config: Config, prefix: str = "") -> Iterator[str]:
    """Yield the paths of the layers in a model."""
    for layer in configs.inner_layers({"config": config}):
        path = f"{prefix}{configs.name_of(layer)}"
        yield path
        if isinstance(layer.get("config"), dict):
            yield from _paths(layer["config"], f"{path}/")
