"""Separates the learned state of preprocessing layers from the weights of a model.

Lookup layers keep tokens in tables or in files of an archive, and numbers in variables.
In Keras 3, both are part of the layer's config: see `plan/preprocessing.py`.
"""

import collections
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from keras_policies._common.types import Config
from keras_policies.legacy.base import configs
from keras_policies.legacy.base.configs import beginnings_among, without_package
from keras_policies.legacy.base.model import Vocabulary
from keras_policies.legacy.base.weights import LayerWeights, LegacyWeight
from keras_policies.legacy.guards import budget

STATEFUL = (*configs.LOOKUPS, "CategoryEncoding", "Discretization")


def _in_config(config: Config, prefix: str = "") -> Iterator[str]:
    """Yield the paths of layers with learned state, in the form that plan/ uses."""
    for layer in configs.inner_layers(config):
        path = budget.layer_path(prefix, configs.name_of(layer))
        if without_package(str(layer.get("class_name"))) in STATEFUL:
            yield path
        yield from _in_config(layer, f"{path}/")


def take(
    config: Config, weights: LayerWeights, tokens: Mapping[str, Mapping[int, Any]]
) -> tuple[dict[str, Vocabulary], LayerWeights]:
    """Return `({path: Vocabulary}, weights)`, the weights without learned state.

    `tokens` is `{path of a layer: {index: token}}`.
    """
    learned = {}
    used: set[int] = set()
    layers_around, places = beginnings_among(weights), dict[str, tuple[str, str]]()
    wanted = collections.defaultdict[str, set[str]](set)
    for path in dict.fromkeys((*_in_config(config), *tokens)):
        layer = next(layers_around(path), "")
        places[path] = layer, path.removeprefix(layer).lstrip("/")
        wanted[layer].add(places[path][1])
    below = {name: _below(weights.get(name, ()), wanted[name]) for name in wanted}
    for path, (layer, inner) in places.items():
        weights_below = [item for item in below[layer][inner] if id(item) not in used]
        used.update(map(id, weights_below))
        learned[path] = Vocabulary(tokens.get(path, {}), tuple(weights_below))
    remaining = {
        name: tuple(item for item in items if id(item) not in used)
        for name, items in weights.items()
    }
    return learned, remaining


def _below(
    weights: Sequence[LegacyWeight], paths: Collection[str]
) -> dict[str, list[LegacyWeight]]:
    """Return `{path: weights below it}`; paths have no leading underscores."""
    below = collections.defaultdict(list, {"": [*weights]})
    paths_around = beginnings_among({*paths} - {""})
    for weight in weights:
        parts = [part.lstrip("_") for part in weight.path.split("/")]
        for path in paths_around("/".join(parts[:-1])):
            below[path].append(weight)
    return below
