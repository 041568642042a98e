"""Refuses HDF5 models in which the names of layers contradict each other.

The names are in the config, in `layer_names` (in the order of the config) and in those
of the groups, which begin the names of the weights. tf.keras pairs layers and weights
by their order, this package by their names, so where both disagree, one of them takes
the weights of another layer.
"""

import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from keras_policies._common.types import Config
from keras_policies.legacy.base import configs
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.weights import LayerWeights

# The config of such a layer has the name of its op.
NAMED_OTHERWISE = ("TensorFlowOpLayer",)


def once(names: Sequence[str], attribute: str) -> Sequence[str]:
    """Return the names in an attribute; raise if one occurs twice."""
    seen = set[str]()
    for name in names:
        if name in seen:
            reason = f"corrupt: the attribute {attribute!r} has {name!r} twice."
            raise LegacyModelError(reason)
        seen.add(name)
    return names


def check(config: Config, weights: LayerWeights, path: pathlib.Path) -> None:
    """Raise if names contradict each other; `weights` are in the order of the file."""
    pair = _other_config(config) or _other_order(config, weights)
    pair = pair or _other_group(weights)
    if pair is not None:
        raise LegacyModelError(
            f"corrupt: the names of its layers contradict each other: {pair}. tf.keras "
            "goes by the order, and may give the layers the weights of each other.",
            "If you know which names are right, build the model in code, and call "
            f"keras_policies.load_weights(model, {str(path)!r}, by_name=True).",
        )


def _other_config(config: Config) -> str | None:
    """Return which layer of a model has the name of another one in its config."""
    layers = configs.inner_layers(config)
    taken = {str(layer.get("name")) for layer in layers}
    for layer in layers:
        name, inner = layer.get("name"), configs.settings(layer).get("name")
        is_other = name and inner != name and inner in taken - {"None"}
        if is_other and layer.get("class_name") not in NAMED_OTHERWISE:
            return f"the config of the layer {name!r} has the name {inner!r}"
        if found := _other_config(layer):
            return found
    return None


def _other_order(config: Config, weights: LayerWeights) -> str | None:
    """Return where `layer_names` and the config have layers in another order."""
    names = [*map(configs.name_of, configs.inner_layers(config))]
    in_config = _common(names, {*weights})
    in_file = _common(weights, {*names})
    for one, other in zip(in_config, in_file, strict=True):
        if one != other:
            return f"the config has {one!r} where layer_names has {other!r}"
    return None


def _common(names: Iterable[str], others: set[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name in others]


def _other_group(weights: LayerWeights) -> str | None:
    """Return which two groups hold weights that have each other's names."""
    names_in = configs.beginnings_among({*weights} - {""})
    owners: dict[str, set[Any]] = {
        layer: {next(names_in(weight.name), None) for weight in weights[layer]}
        for layer in weights
    }
    for layer, (owner, *others) in ((x, [*y]) for x, y in owners.items() if y):
        if not others and owner not in (layer, None) and owners[owner] == {layer}:
            return f"the group {layer!r} has weights of {owner!r}, and the other way"
    return None
