"""Finds what preprocessing layers have learned, wherever a legacy file keeps it.

Lookup layers have their tokens in tables (`tables.py`) or in files of an archive, and
numbers in variables. In Keras 3 all of it belongs to the config of the layer, where
`lookups.py` puts it.
"""

import collections

from keras_policies.legacy.base import configs, lookups
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import Vocabulary
from keras_policies.legacy.readers.checkpoint import object_graph

STATEFUL = (*lookups.LOOKUPS, "CategoryEncoding", "Discretization")


def class_name(described):
    """Return the name of a class, without the package it was registered in."""
    return str(described.get("class_name")).rpartition(">")[2]


def _in_config(config, prefix=""):
    """Yield the paths of the layers with a state, as `layers.convert` names them."""
    for layer in configs.inner_layers(config):
        path = configs.path(prefix, configs.name_of(layer))
        if class_name(layer) in STATEFUL:
            yield path
        yield from _in_config(layer, f"{path}/")


def edges_below(graph, node):
    """Return `{name: node}`: layers of a model, or else attributes."""
    if graph.is_graph(node):
        return graph.layers(node)
    numbered = object_graph.LAYER, object_graph.LAYER_WITH_WEIGHTS
    return {
        edge.lstrip("_"): child
        for edge, child in graph.children[node].items()
        if edge not in object_graph.BOOKKEEPING and not edge.startswith(numbered)
    }


def _in_graph(graph):
    """Return `{path: node}` of the lookup layers of a SavedModel, nearest first."""
    found, seen, queue = {}, {0}, collections.deque([(0, "")])
    while queue:
        node, prefix = queue.popleft()
        graph.count(len(graph.children[node]), prefix)
        for edge, child in edges_below(graph, node).items():
            if class_name(graph.metadata.get(child, {})) in lookups.LOOKUPS:
                found.setdefault(f"{prefix}{edge}", child)
            elif child not in seen:
                seen.add(child)
                queue.append((child, f"{prefix}{edge}/"))
    return found


def of_saved_model(graph, tables, where):
    """Return `{path: {index: token}}` of the lookup layers of a SavedModel.

    Args:
        graph: `ObjectGraph`.
        tables: `Tables`.
        where: str, the file, for errors.
    """
    found = {}
    for path, node in _in_graph(graph).items():
        named = f"{where}: the layer {path!r}"
        held = tables.read(node, named)
        if held is None:
            continue
        keys, values = held
        described = graph.metadata[node]
        config = described.get("config")
        config = config if isinstance(config, dict) else {}
        if values is None:  # the lines of a file
            start = len(lookups.special_tokens(class_name(described), config))
            found[path] = dict(enumerate(keys, start))
            continue
        tokens, indices = (values, keys) if config.get("invert") else (keys, values)
        found[path] = dict(zip(indices, tokens, strict=False))
        is_whole = len(tokens) == len(indices) == len(found[path])
        if not is_whole or not all(isinstance(i, int) for i in indices):
            raise LegacyModelError(
                f"{named}: corrupt: {len(tokens)} tokens for {len(found[path])} "
                "indices."
            )
    return found


def take(config, weights, tokens):
    """Return `({path: Vocabulary}, weights)`, the weights without what layers learned.

    Args:
        config: dict, the model's, as written.
        weights: `{layer: (LegacyWeight, ...)}`.
        tokens: `{path: {index: token}}`.
    """
    found, taken, below = {}, set(), {}
    for path in dict.fromkeys((*_in_config(config), *tokens)):
        layer = next((name for name in _beginnings(path) if name in weights), "")
        if layer not in below:
            below[layer] = _by_beginning(weights.get(layer, ()))
        inner = path.removeprefix(layer).lstrip("/")
        own = [item for item in below[layer][inner] if id(item) not in taken]
        taken.update(map(id, own))
        found[path] = Vocabulary(tokens.get(path, {}), tuple(own))
    left = {
        name: tuple(item for item in items if id(item) not in taken)
        for name, items in weights.items()
    }
    return found, left


def _beginnings(path):
    """Yield `a`, `a/b`, `a/b/c` of a path."""
    for at, character in enumerate(f"{path}/"):
        if character == "/":
            yield path[:at]


def _by_beginning(weights):
    """Return `{path: weights below it}`, by attributes without leading underscores."""
    found = collections.defaultdict(list, {"": list(weights)})
    for weight in weights:
        parts = [part.lstrip("_") for part in weight.path.split("/")]
        for beginning in _beginnings("/".join(parts[:-1])):
            if beginning:
                found[beginning].append(weight)
    return found
