"""Pairs the layers and operations of two models by their places in the graph.

Automatic names depend on what a process made before, so they decide nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras

from keras_policies._common.types import Config
from keras_policies.legacy.assembly.targets import is_graph

COPIES = "forward_", "backward_"  # what Bidirectional puts before names
NUMBER = re.compile(r"_\d{1,9}$")
HISTORY = "keras_history"  # of a tensor in a config: name, call and output of a layer


class Node(NamedTuple):
    """A layer or an operation in the config of a model."""

    name: str
    class_name: str
    shapes: tuple[tuple[int, ...], ...]  # of its weights
    takes: tuple[tuple[str, int, int], ...]  # the outputs that it is called on
    calls: Any  # as in the config, with tensors as the outputs that they are
    is_layer: bool


def is_automatic(name: str, class_name: str) -> bool:
    """Return whether a layer has the name of its class, with a number perhaps.

    Example:
        >>> is_automatic("batch_normalization_3", "BatchNormalization")
        True
        >>> is_automatic("stem", "BatchNormalization")
        False
    """
    for start in COPIES:
        name = name.removeprefix(start)
    kind = NUMBER.sub("", name).replace("_", "")
    return kind in (class_name.lower(), class_name.lower().removesuffix("layer"))


def nodes(model: keras.Layer) -> list[Node]:
    """Return what a Sequential or Functional model calls, in the order of the calls."""
    if not is_graph(model):
        return []
    by_name = {layer.name: layer for layer in model.layers}
    found: list[Node] = []
    for written in model.get_config()["layers"]:
        name = written.get("name") or written["config"]["name"]
        layer, calls = by_name.get(name), written.get("inbound_nodes")
        takes = (*_taken(calls),)
        if calls is None and found:  # a Sequential
            takes = ((found[-1].name, 0, 0),)
        shapes = tuple(tuple(w.shape) for w in (layer.weights if layer else ()))
        is_layer = layer is not None or calls is None
        class_name = written["class_name"]
        calls = calls and _by_history(calls)
        found.append(Node(name, class_name, shapes, takes, calls, is_layer))
    return found


def _by_history(value: Any) -> Any:
    """Return the arguments of calls, with tensors as the outputs that they are."""
    if isinstance(value, dict):
        if HISTORY in value:
            return [*value[HISTORY]]
        return {key: _by_history(item) for key, item in value.items()}
    return [*map(_by_history, value)] if isinstance(value, list | tuple) else value


def _taken(value: Any) -> Iterator[tuple[str, int, int]]:
    if isinstance(value, dict):
        if HISTORY in value:
            name, call, output = value[HISTORY]
            yield str(name), int(call), int(output)
        value = [*value.values()]
    if isinstance(value, list | tuple):
        for item in value:
            yield from _taken(item)


def paired(old: Sequence[Node], new: Sequence[Node]) -> dict[str, str]:
    """Return `{name in new: name in old}` of the nodes that have the same place.

    A node has that of another one of its class that is called on the same nodes; of
    several, the one with its name, or else the first. Without one, the name decides.
    """
    left, names = {node.name: node for node in old}, {node.name for node in new}
    found: dict[str, str] = {}
    for node in new:
        takes = tuple((found.get(name, ""), *rest) for name, *rest in node.takes)
        alike = [
            each
            for each in left.values()
            if each.takes == takes and _may_be(each, node, names)
        ]
        by_name = left.get(node.name)
        if by_name in alike or (not alike and by_name is not None):
            alike = [by_name] if by_name.class_name == node.class_name else []
        if alike:
            found[node.name] = alike[0].name
            del left[alike[0].name]
    return found


def _may_be(old: Node, new: Node, names: set[str]) -> bool:
    """Return whether a node may be another one, whatever they are called on."""
    if old.class_name != new.class_name:
        return False
    are_automatic = all(is_automatic(each.name, each.class_name) for each in (old, new))
    is_free = old.name not in names or are_automatic
    is_same = old.shapes == new.shapes or are_automatic or not new.is_layer
    return old.name == new.name or (is_free and is_same)


def renamed(
    old: Mapping[str, keras.Layer], new: Mapping[str, keras.Layer]
) -> dict[str, str]:
    """Return `{path in new: path in old}` for the layers of two models, by their paths.

    A path without a counterpart is kept, with a mark if old has it for another layer.
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for path, layer in new.items():  # the nearest layers come first
        found.setdefault(path, _below(path, found))
        if found[path] in taken:
            found[path] += " of NEW"
        taken.add(found[path])
        other = old.get(found[path])
        if other is not None and is_graph(layer) and is_graph(other):
            inside = paired(nodes(other), nodes(layer))
            starts = [f"{each}/" if each else "" for each in (path, found[path])]
            pairs = ((starts[0] + a, starts[1] + b) for a, b in inside.items())
            found |= {a: b for a, b in pairs if a in new and b in old}
    return found


def _below(path: str, found: Mapping[str, str]) -> str:
    """Return a path with the beginning that its outer layer has in old."""
    outer = path
    while outer:
        outer = outer.rpartition("/")[0]
        if outer in found:
            return f"{found[outer]}{path[len(outer) :]}" if outer else path
    return path


def without_automatic_names(config: Any) -> Any:
    """Return a config without the automatic names in it."""
    if isinstance(config, list | tuple):
        return [*map(without_automatic_names, config)]
    if not isinstance(config, dict):
        return config
    inner = config.get("config")
    inner = inner if isinstance(inner, dict) else {}
    name = inner.get("name")
    if isinstance(name, str) and is_automatic(name, str(config.get("class_name"))):
        config = {**config, "config": {k: v for k, v in inner.items() if k != "name"}}
    return {key: without_automatic_names(value) for key, value in config.items()}


def own_config(layer: keras.Layer) -> Config:
    """Return `class` and settings of a layer; an automatic name is none."""
    written = keras.saving.serialize_keras_object(layer)
    plain = without_automatic_names(written)
    return {"class": plain["class_name"], **plain["config"]}
