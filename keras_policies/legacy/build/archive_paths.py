"""Where a `.keras` file of Keras 2.11 to 2.15 has the layers of a subclassed model.

A layer is stored once, under the first attribute or list that leads to it. Members of a
list go by their class and a counter. Source: `_walk_trackable` and
`_save_container_state` in keras/saving/saving_lib.py of 2.12 to 2.15.
"""

import dataclasses
import re
from collections.abc import Iterator

import keras

from keras_policies import keras_internals
from keras_policies.legacy.base.configs import LAYER_GROUPS, snake_case
from keras_policies.legacy.base.model import LegacyModel
from keras_policies.legacy.build import targets

Release = tuple[int, int]
FORMAT = "Keras 2 .keras"
REVERSED = 2, 15  # since which attributes come in the reversed order of the alphabet
UNCOUNTED = 2, 14  # since which the counter passes over layers that are stored already
LAYERS, DEPENDENCIES = LAYER_GROUPS


def by_attribute(model: keras.Model, legacy: LegacyModel) -> LegacyModel:
    """Return a legacy model whose weights have the paths that `targets.layers` gives.

    `layers/dense_1/vars/0` becomes `head/vars/0` if that layer is the attribute `head`.
    """
    if legacy.format != FORMAT or set(legacy.weights) != {""}:
        return legacy
    found = re.search(r"(\d+)\.(\d+)", legacy.written_by)
    release = (int(found[1]), int(found[2])) if found else REVERSED
    stored = {id(p.layer): p.stored_path for p in targets.layers(model)}
    paths = {
        path: stored[id(layer)]
        for layer, path in _walk(model, "", release, set())
        if id(layer) in stored
    }
    weights = []
    for weight in legacy.weights[""]:
        before, variables, number = weight.path.rpartition("/vars/")
        path = f"{paths.get(before, before)}{variables}{number}".removeprefix("/")
        weights.append(dataclasses.replace(weight, path=path))
    plain = {_plain(path): paths[path] for path in paths}
    learned = {plain.get(path, path): v for path, v in legacy.vocabularies.items()}
    return dataclasses.replace(
        legacy, weights={"": tuple(weights)}, vocabularies=learned
    )


def _plain(path: str) -> str:
    """Return a path as the reader gives it for a vocabulary."""
    return "/".join(part.lstrip("_") for part in path.split("/"))


def _walk(
    layer: keras.Layer, path: str, release: Release, seen: set[int]
) -> Iterator[tuple[keras.Layer, str]]:
    """Yield each layer in the order in which Keras 2 stored it, with its path."""
    seen.add(id(layer))
    yield layer, path
    for name, children in _attributes(layer, release):
        counts: dict[str, int] = {}
        for child in children if isinstance(children, list) else [children]:
            is_stored = id(child) in seen
            below = f"{path}/{name}" if path else name
            if isinstance(children, list):
                if is_stored and release >= UNCOUNTED:
                    continue
                member = snake_case(type(child).__name__)
                number = counts[member] = counts.get(member, -1) + 1
                below = f"{below}/{member}_{number}" if number else f"{below}/{member}"
            if not is_stored:
                yield from _walk(child, below, release, seen)


def _attributes(
    layer: keras.Layer, release: Release
) -> list[tuple[str, keras.Layer | list[keras.Layer]]]:
    """Return the layers and the lists of layers in a layer, in the order of Keras 2."""
    found: dict[str, keras.Layer | list[keras.Layer]] = {}
    for name, value in keras_internals.own_attributes(layer):
        if isinstance(value, keras.Layer):
            found[name] = value
        elif isinstance(value, list | tuple | dict):
            items = value.values() if isinstance(value, dict) else value
            found[name] = [item for item in items if isinstance(item, keras.Layer)]
    if isinstance(layer, keras.Model):
        found[LAYERS] = layer.layers
        is_graph = isinstance(layer, keras.Sequential)
        is_graph = is_graph or keras_internals.is_functional(layer)
        if is_graph and (2, 11) < release < REVERSED:
            # Those with weights are listed twice: `layer_with_weights-0`, `layer-0`.
            twice = [[item] * (1 + bool(item.weights)) for item in layer.layers]
            found[DEPENDENCIES] = [item for items in twice for item in items]
    return sorted(found.items(), reverse=release >= REVERSED)
