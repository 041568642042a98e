"""A model that is called on parts of the batch, as `multi_gpu_model` arranged it.

Lambda layers cut the batch into parts, a model took each, and Concatenate layers joined
the outputs. The last part has the rows that the others leave, a number that no op of
Keras can give a tensor. A model that computes each row by itself is called once
instead, on the whole batch.
Source: tensorflow/python/keras/utils/multi_gpu_utils.py of TensorFlow 2.0.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_policies._common import keras_names
from keras_policies._common.types import Config
from keras_policies.legacy.base.configs import inner_layers, name_of
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.plan import classes
from keras_policies.legacy.plan.graph import tensors

# Settings that name axes; the first axis is the batch.
AXES = "axis", "axes"
NORMALIZATION = "BatchNormalization"  # or BatchNormalization_v1


def on_whole_batch(config: Config) -> tuple[Config, frozenset[str]]:
    """Return a config without parts of the batch, and the layers that cut it."""
    if not any(map(_joins_batch, config["layers"])):
        return config, frozenset()
    layers = {name_of(layer): layer for layer in config["layers"]}
    nodes = {name: layer.get("inbound_nodes") or [] for name, layer in layers.items()}
    takers = defaultdict(list)  # layer -> those that take its outputs
    for taker, nest in (*nodes.items(), ("", config["output_layers"])):
        for tensor in tensors(nest, layers):
            takers[tensor[0]].append(taker)
    changed: dict[str, Config] = {}
    cuts: set[str] = set()
    for name, layer in layers.items():
        joins = {taker: layers.get(taker, {}) for taker in takers[name]}
        parts = [tensors(node, layers) for node in nodes[name]]
        joins_all = bool(joins) and all(map(_joins_batch, joins.values()))
        if len(parts) < 2 or not joins_all or not all(map(_is_plain, nodes[name])):
            continue
        slices = {tensor[0] for part in parts for tensor in part}
        if (
            all(_is_in_order(name, tensors(nodes[j], layers), parts) for j in joins)
            and all(takers[cut] == [name] for cut in slices)
            and (sources := _sources(parts, layers)) is not None
            and _is_by_row(layer)
        ):
            cuts |= slices
            changed[name] = {**layer, "inbound_nodes": [sources]}
            for join in joins:
                (first, *_) = tensors(nodes[join], layers)
                changed[join] = _linear(layers[join], first)
    found = [changed.get(name, layer) for name, layer in layers.items()]
    return {**config, "layers": found} if changed else config, frozenset(cuts)


def takes_statistics(config: Config) -> bool:
    """Return whether there is a batch normalization in a model."""
    return any(
        str(layer.get("class_name")).startswith(NORMALIZATION)
        or takes_statistics({"layers": inner_layers(layer)})
        for layer in config["layers"]
        if isinstance(layer, dict)
    )


def _joins_batch(layer: Any) -> bool:
    is_join = isinstance(layer, dict) and layer.get("class_name") == "Concatenate"
    return is_join and layer["config"].get("axis") == 0


def _is_plain(node: Any) -> bool:
    """Return whether a call is one on a list of tensors, without other arguments."""
    items = node if isinstance(node, list) else [None]
    return all(isinstance(item, list) and item[3:] in ([], [{}]) for item in items)


def _linear(join: Config, tensor: list[Any]) -> Config:
    """Return a layer of the same name that hands a tensor on."""
    kept = {key: value for key, value in join["config"].items() if key != "axis"}
    config = {**kept, "activation": "linear"}
    called = {"config": config, "inbound_nodes": [[tensor]]}
    return {**join, "class_name": "Activation", **called}


def _is_in_order(name: str, joined: Sequence[Any], parts: Sequence[Any]) -> bool:
    """Return whether a Concatenate joins one output of all calls, the first first."""
    _, first, output, _ = joined[0]
    calls = range(first, first + len(parts))
    return [tensor[:3] for tensor in joined] == [[name, n, output] for n in calls]


def _sources(parts: Sequence[Any], layers: Mapping[str, Config]) -> list[Any] | None:
    """Return the tensors whose rows all parts have in order, or None if others do."""
    sources = []
    for column in zip(*parts, strict=False):
        cuts = [layers[tensor[0]] for tensor in column]
        cut = {str(cut.get("inbound_nodes")): cut.get("inbound_nodes") for cut in cuts}
        if len(cut) > 1 or not all(cut["class_name"] == "Lambda" for cut in cuts):
            return None
        (nodes,) = cut.values()
        taken = tensors(nodes, layers)
        if len(taken) != 1 or not _keeps_rows(cuts):
            return None
        sources += taken
    return sources if len({*map(len, parts)}) == 1 and sources else None


def _keeps_rows(cuts: Sequence[Config]) -> bool:
    """Return whether the parts of a batch are all its rows, whatever its length."""
    # Imported here: most models have no code.
    from keras_policies.legacy.bytecode import program as programs
    from keras_policies.legacy.plan import lambdas

    converted = [lambdas.program_of(cut["config"]) for cut in cuts]
    for size in range(1, 2 * len(cuts) + 1):
        rows = np.arange(2 * size, dtype="float32").reshape(size, 2)
        try:
            parts = [programs.Run(p, [rows]).outputs() for p in converted if p]
        except LegacyModelError:
            return False
        if len(parts) < len(cuts) or not np.array_equal(np.concatenate(parts), rows):
            return False
    return True


def _is_by_row(layer: Config) -> bool:
    """Return whether a stock layer computes each row alone, and keeps no state."""
    name, config = str(layer.get("class_name")), layer.get("config") or {}
    config = config if isinstance(config, dict) else {}  # a Sequential's list
    renamed = classes.RENAMED_CLASSES.get(name, name)
    is_stock = keras_names.is_class("keras.layers", renamed)
    named = (config[key] for key in AXES if config.get(key) is not None)
    axes = [n for each in named for n in np.ravel(each).tolist()]
    inner = [*inner_layers(layer), config.get("layer"), config.get("cell")]
    return (
        (is_stock or name in classes.GRAPHS)
        and (name != "Lambda" and not classes.is_registered(layer))
        and all(isinstance(n, int) and (n > 0 or n == -1) for n in axes)
        and not config.get("stateful")
        and all(_is_by_row(one) for one in inner if isinstance(one, dict))
    )
