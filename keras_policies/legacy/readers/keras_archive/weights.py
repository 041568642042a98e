"""Gives the weights of a `.keras` file the names of their layers.

In the file they go by attributes and positions, `layers/dense_1/vars/0`: no variable
has a name, and a layer goes by its class and a counter.
"""

import collections
import dataclasses
from collections.abc import Callable, Iterator, Sequence

import h5py

from keras_policies.legacy.base import configs
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import Config, LayerWeights, LegacyWeight
from keras_policies.legacy.base.names import numbered
from keras_policies.legacy.guards.guarded_hdf5 import member
from keras_policies.legacy.readers import hdf5_weights

LAYER_GROUPS = "layers", "_layer_checkpoint_dependencies"
NOT_LAYERS = "optimizer/", "metrics/"
VARIABLES = "vars"


def by_layer(file: h5py.File, config: Config) -> LayerWeights:
    """Return the weights of a model with a config; paths begin below the layer."""
    if not configs.is_graph(config):
        every = _below(file, "", set())
        return {"": tuple(w for w in every if not w.path.startswith(NOT_LAYERS))}
    grouped = collections.defaultdict(list)
    for name, weight in _of_layers(file, configs.inner_layers(config), ""):
        below = weight.path.removeprefix(f"{name}/")
        grouped[name].append(dataclasses.replace(weight, path=below))
    return {name: tuple(found) for name, found in grouped.items()}


def in_order(group: h5py.Group) -> list[str]:
    """Return the names in a group of numbered variables, `"2"` before `"10"`."""
    return sorted(group, key=lambda name: (len(name), name))


def stored_names(layers: Sequence[Config]) -> list[str]:
    """Return the names that the file gives to the layers of a model."""
    return numbered(str(layer.get("class_name")) for layer in layers)


def layer_paths(root: Config) -> Callable[[str], str]:
    """Return a function that translates the path of a layer in the file.

    It returns the path as `LegacyModel` has it.
    """
    known: dict[int, dict[str, Config]] = {}  # of a model, its layers

    def layer_path(stored: str) -> str:
        parts, path, config = stored.split("/"), [], root
        while len(parts) > 1 and parts[0] in LAYER_GROUPS:
            layers = configs.inner_layers(config)
            if id(config) not in known:
                named = zip(stored_names(layers), layers, strict=True)
                known[id(config)] = dict(named)
            found = known[id(config)].get(parts[1])
            if found is None:
                break
            config = found
            path.append(configs.name_of(config))
            parts = parts[2:]
        return "/".join([*path, *(part.lstrip("_") for part in parts)])

    return layer_path


def _below(group: h5py.Group, prefix: str, seen: set[int]) -> Iterator[LegacyWeight]:
    """Yield the weights in a layer's group and in the groups below it.

    The addresses of groups that were met are added to `seen`: a group in two places
    could be in very many.
    """
    for name in group:
        inner = member(group, name)
        if not isinstance(inner, h5py.Group):
            continue
        address = h5py.h5o.get_info(inner.id).addr
        if address in seen:
            raise LegacyModelError(f"corrupt: {prefix}{name} is met twice.")
        seen.add(address)
        if name != VARIABLES:
            yield from _below(inner, f"{prefix}{name}/", seen)
            continue
        for number in in_order(inner):
            yield hdf5_weights.weight(inner, number, f"{prefix}{VARIABLES}/{number}")


def _of_layers(
    group: h5py.Group, layers: Sequence[Config], prefix: str
) -> Iterator[tuple[str, LegacyWeight]]:
    """Yield `(layer name, LegacyWeight)`, nested models with their layers' names."""
    groups = (member(group, name) for name in LAYER_GROUPS)
    group = next((found for found in groups if found is not None), None)
    for stored, layer in zip(stored_names(layers), layers, strict=True):
        inner = None if group is None else member(group, stored)
        if inner is None or not isinstance(layer.get("config"), dict):
            continue
        own = configs.name_of(layer)
        below = f"{prefix}{own}/"
        if configs.is_graph(layer):
            nested = _of_layers(inner, configs.inner_layers(layer), below)
            yield from ((own, weight) for _, weight in nested)
        else:
            yield from ((own, w) for w in _below(inner, below, set()))
