"""The vocabularies of the lookup layers in a SavedModel."""

from typing import Any

from keras_policies.legacy.base import lookups
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.base.names import without_package
from keras_policies.legacy.readers.checkpoint.object_graph import ObjectGraph
from keras_policies.legacy.readers.saved_model.objects import SavedObjects
from keras_policies.legacy.readers.saved_model.tables import Tables


def by_layer(objects: SavedObjects) -> dict[str, dict[int, Any]]:
    """Return `{path: {index: token}}` of the lookup layers of a SavedModel."""
    graph, tables = objects.graph, Tables(objects)
    found: dict[str, dict[int, Any]] = {}
    walk = graph.walk(0, graph.inner_layers, lambda node: _is_lookup(graph, node))
    for path, node in walk:
        if _is_lookup(graph, node) and path not in found:
            with located(layer=path):
                held = tables.read(node)
                if held is not None:
                    found[path] = _by_index(graph, node, *held)
    return found


def _class_name(graph: ObjectGraph, node: int) -> str:
    return without_package(str(graph.metadata.get(node, {}).get("class_name")))


def _is_lookup(graph: ObjectGraph, node: int) -> bool:
    return _class_name(graph, node) in lookups.LOOKUPS


def _by_index(
    graph: ObjectGraph, node: int, keys: list[Any], values: list[Any] | None
) -> dict[int, Any]:
    """Return `{index: token}` from what `Tables.read` returns for a layer."""
    config = graph.metadata[node].get("config")
    config = config if isinstance(config, dict) else {}
    if values is None:  # the lines of a file
        start = len(lookups.special_tokens(_class_name(graph, node), config))
        return dict(enumerate(keys, start))
    tokens, indices = (values, keys) if config.get("invert") else (keys, values)
    found = dict(zip(indices, tokens, strict=False))
    are_numbers = all(isinstance(index, int) for index in indices)
    if not are_numbers or not len(tokens) == len(indices) == len(found):
        reason = f"corrupt: {len(tokens)} tokens for {len(found)} indices."
        raise LegacyModelError(reason)
    return found
