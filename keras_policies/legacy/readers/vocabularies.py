"""Separates the learned state of preprocessing layers from the weights of a model.

Lookup layers keep tokens in tables or in files of an archive, and numbers in variables.
In Keras 3, both are part of the layer's config: see `plan/preprocessing.py`.
"""

import collections
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from keras_policies._common.types import Config
from keras_policies.legacy.base import configs
from keras_policies.legacy.base.configs import beginnings, without_package
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
    below: dict[str, dict[str, list[LegacyWeight]]] = {}
    for path in dict.fromkeys((*_in_config(config), *tokens)):
        layer = next((name for name in beginnings(path) if name in weights), "")
        if layer not in below:
            below[layer] = _by_beginning(weights.get(layer, ()))
        inner = path.removeprefix(layer).lstrip("/")
        weights_below = [item for item in below[layer][inner] if id(item) not in used]
        used.update(map(id, weights_below))
        learned[path] = Vocabulary(tokens.get(path, {}), tuple(weights_below))
    remaining = {
        name: tuple(item for item in items if id(item) not in used)
        for name, items in weights.items()
    }
    return learned, remaining


def _by_beginning(weights: Iterable[LegacyWeight]) -> dict[str, list[LegacyWeight]]:
    """Return `{path: weights below it}`; paths have no leading underscores."""
    below = collections.defaultdict(list, {"": list(weights)})
    for weight in weights:
        parts = [part.lstrip("_") for part in weight.path.split("/")]
        for beginning in beginnings("/".join(parts[:-1])):
            if beginning:
                below[beginning].append(weight)
    return below
