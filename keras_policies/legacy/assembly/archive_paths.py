"""The paths of a subclassed model's layers in `.keras` files of Keras 2.11 to 2.15.

A layer is stored once, under the first attribute or list that leads to it. Members of a
list are numbered by class. Source: `_walk_trackable` and `_save_container_state` in
keras/saving/saving_lib.py of 2.12 to 2.15.
"""

import dataclasses
import re
from collections.abc import Iterator

import keras

from keras_policies import keras_internals
from keras_policies.legacy.assembly import targets
from keras_policies.legacy.assembly.keras_differences import masks
from keras_policies.legacy.base.configs import LAYER_GROUPS, layer_name, snake_case
from keras_policies.legacy.base.model import LegacyModel
from keras_policies.legacy.base.weights import LegacyWeight

FORMAT = "Keras 2 .keras"
REVERSED = 2, 15  # the first release that sorts attributes in reverse order
UNCOUNTED = 2, 14  # the first that does not count layers that are already stored
LAYERS, DEPENDENCIES = LAYER_GROUPS


def by_attribute(model: keras.Model, legacy: LegacyModel) -> LegacyModel:
    """Return a legacy model whose weights have the paths of `targets.layers`.

    `layers/dense_1/vars/0` becomes `head/vars/0` if that layer is the attribute `head`.
    """
    if legacy.format != FORMAT:
        return legacy
    release = masks.release(legacy.written_by)
    places = [*targets.layers(model)]
    stored = {id(place.layer): place.stored_path for place in places}
    paths: dict[str, str] = {}
    # The file names the layers of graphs, but not a graph inside a wrapper.
    is_whole = set(legacy.weights) == {""}
    for place in places:
        outer = place.layer
        is_own = isinstance(outer, keras.Model) and not targets.is_graph(outer)
        if is_own or (is_whole and outer is model):
            for layer, path in _walk(outer, place.stored_path, release, set()):
                if id(layer) in stored:
                    paths.setdefault(path, stored[id(layer)])
    weights = {
        name: tuple(_renamed(weight, layer_name(name), paths) for weight in items)
        for name, items in legacy.weights.items()
    }
    # The reader strips underscores from the paths of vocabularies.
    plain = {re.sub("(^|/)_+", r"\1", path): paths[path] for path in paths}
    learned = {plain.get(path, path): v for path, v in legacy.vocabularies.items()}
    return dataclasses.replace(legacy, weights=weights, vocabularies=learned)


def _renamed(weight: LegacyWeight, layer: str, paths: dict[str, str]) -> LegacyWeight:
    """Return a weight of a layer, `""` for the model, with its new path."""
    before, _, number = f"/{weight.path}".rpartition("/vars/")
    stored = f"{layer}{before}".lstrip("/")
    path = f"{paths.get(stored, stored)}/vars/{number}"
    return dataclasses.replace(weight, path=path.removeprefix(f"{layer}/"))


def _walk(
    layer: keras.Layer, path: str, release: masks.Release, seen: set[int]
) -> Iterator[tuple[keras.Layer, str]]:
    """Yield layers and their paths, in the order in which Keras 2 stored them."""
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
    layer: keras.Layer, release: masks.Release
) -> list[tuple[str, keras.Layer | list[keras.Layer]]]:
    """Return the layers and lists of layers in a layer, in the order of Keras 2."""
    found: dict[str, keras.Layer | list[keras.Layer]] = {}
    for name, value in keras_internals.own_attributes(layer):
        if isinstance(value, keras.Layer):
            found[name] = value
        elif isinstance(value, list | tuple | dict):
            items = value.values() if isinstance(value, dict) else value
            found[name] = [item for item in items if isinstance(item, keras.Layer)]
    if isinstance(layer, keras.Model):
        found[LAYERS] = layer.layers
        if targets.is_graph(layer) and (2, 11) < release < REVERSED:
            # Those with weights are listed twice: `layer_with_weights-0`, `layer-0`.
            twice = [[item] * (1 + bool(item.weights)) for item in layer.layers]
            found[DEPENDENCIES] = [item for items in twice for item in items]
    return sorted(found.items(), reverse=release >= REVERSED)
