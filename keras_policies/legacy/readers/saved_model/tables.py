"""Reads the lookup tables of a SavedModel, and so the vocabularies of its layers.

A table that can change lies in the checkpoint (up to 2.5). A static one is filled, when
TensorFlow loads it, by a function of the graph: its inputs are two constants of the
graph, or a file among the assets. Sources: tensorflow/python/ops/lookup_ops.py,
tensorflow/core/protobuf/saved_object_graph.proto.
"""

import pathlib
from typing import Any

from keras_policies.legacy.base import configs
from keras_policies.legacy.base.configs import without_package
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.guards import limits, texts
from keras_policies.legacy.guards.paths import check_inside
from keras_policies.legacy.readers.checkpoint.object_graph import ObjectGraph
from keras_policies.legacy.readers.checkpoint.protos import Message
from keras_policies.legacy.readers.saved_model.objects import SavedObjects

ASSETS = "assets"
TABLES = "lookup_table", "_table"  # 2.6 and on, before
INNER_LAYERS = "_lookup_layer", "_index_lookup_layer"  # of TextVectorization, likewise
KEYS, VALUES = "-keys", "-values"


class Tables:
    """The lookup tables of a SavedModel."""

    def __init__(self, objects: SavedObjects) -> None:
        self._objects = objects
        self._children = objects.graph.children

    def read(self, layer: int) -> tuple[list[Any], list[Any] | None] | None:
        """Return the content of a lookup layer's table, or None.

        It is `(keys, values)`, two lists of ints or bytes; or `(lines, None)`, the
        lines of a file, each a token.
        """
        for edge in INNER_LAYERS:
            layer = self._children[layer].get(edge, layer)
        edges = self._children[layer]
        table = next((edges[name] for name in TABLES if name in edges), None)
        if table is None:
            return None
        return self._in_checkpoint(table) or self._in_graph(table)

    def _in_checkpoint(self, table: int) -> tuple[list[Any], list[Any]] | None:
        objects = self._objects
        if table not in objects.in_checkpoint:
            return None
        there = objects.checkpoint_nodes[objects.in_checkpoint[table]]
        for attribute in there.attributes:
            key = attribute.checkpoint_key
            if f"{key}{KEYS}" in objects.checkpoint.entries:
                keys = objects.checkpoint.read(f"{key}{KEYS}").reshape(-1).tolist()
                values = objects.checkpoint.read(f"{key}{VALUES}").reshape(-1).tolist()
                return (keys, values) if keys else None
        return None

    def _in_graph(self, table: int) -> tuple[list[Any], list[Any] | None] | None:
        inputs = self._inputs(table)
        assets = [node for node in inputs if node.HasField("asset")]
        constants = [node for node in inputs if node.HasField("constant")]
        if assets:
            return self._lines(assets[0].asset.asset_file_def_index), None
        if len(constants) != 2:
            return None
        keys, values = (self._constant(node.constant.operation) for node in constants)
        return keys, values

    def _inputs(self, table: int) -> list[Message]:
        """Return the inputs of the function that fills a table."""
        nodes = self._objects.nodes
        initialize = self._children[table].get("_initialize")
        if initialize is None:
            return []
        names = nodes[initialize].function.concrete_functions
        captured = (self._objects.library.trace(name).captures for name in names)
        every = (number for numbers in captured for number in numbers)
        return [nodes[number] for number in every if number != table]

    def _constant(self, name: str) -> list[Any]:
        """Return the values of a constant, integers or strings, as a flat list."""
        values = self._objects.library.constant(name)
        if values.dtype.kind not in "iO":
            raise LegacyModelError(
                f"{name}: corrupt: values of type {values.dtype}, expected integers or "
                "strings."
            )
        if values.size > limits.VOCABULARY_TOKENS:
            reason = f"{name}: corrupt: {values.size} tokens in a vocabulary."
            raise LegacyModelError(reason)
        listed: list[Any] = values.reshape(-1).tolist()
        return listed

    def _lines(self, number: int) -> list[bytes]:
        """Return the lines of an asset, as TensorFlow reads them."""
        files = self._objects.meta_graph.asset_file_def
        name = files[number].filename if 0 <= number < len(files) else ""
        if not name or name in (".", "..") or pathlib.PurePath(name).name != name:
            raise LegacyModelError(f"corrupt: its vocabulary is in {name!r}.")
        path = self._objects.folder / ASSETS / name
        if not path.is_file():
            reason = f"its vocabulary {ASSETS}/{name} is missing."
            raise LegacyModelError(reason, "Copy the whole folder.")
        check_inside(path, self._objects.folder)
        size = path.stat().st_size
        if size > limits.VOCABULARY_BYTES:
            raise LegacyModelError(
                f"its vocabulary {ASSETS}/{name} has {size} bytes, expected at most "
                f"{limits.VOCABULARY_BYTES}."
            )
        lines = texts.vocabulary(path.read_bytes().replace(b"\r", b""))
        return lines[:-1] if lines[-1] == b"" else lines


def tokens_by_layer(objects: SavedObjects) -> dict[str, dict[int, Any]]:
    """Return `{path: {index: token}}` of the lookup layers of a SavedModel."""
    graph, tables = objects.graph, Tables(objects)
    tokens: dict[str, dict[int, Any]] = {}
    walk = graph.walk(0, graph.inner_layers, lambda node: _is_lookup(graph, node))
    for path, node in walk:
        if _is_lookup(graph, node) and path not in tokens:
            with located(layer=path):
                table = tables.read(node)
                if table is not None:
                    tokens[path] = _by_index(graph, node, *table)
    return tokens


def _class_name(graph: ObjectGraph, node: int) -> str:
    return without_package(str(graph.metadata.get(node, {}).get("class_name")))


def _is_lookup(graph: ObjectGraph, node: int) -> bool:
    return _class_name(graph, node) in configs.LOOKUPS


def _by_index(
    graph: ObjectGraph, node: int, keys: list[Any], values: list[Any] | None
) -> dict[int, Any]:
    """Return `{index: token}` from what `Tables.read` returns for a layer."""
    config = graph.metadata[node].get("config")
    config = config if isinstance(config, dict) else {}
    if values is None:  # the lines of a file
        start = len(configs.special_tokens(_class_name(graph, node), config))
        return dict(enumerate(keys, start))
    tokens, indices = (values, keys) if config.get("invert") else (keys, values)
    by_index = dict(zip(indices, tokens, strict=False))
    are_numbers = all(isinstance(index, int) for index in indices)
    if not are_numbers or not len(tokens) == len(indices) == len(by_index):
        reason = f"corrupt: {len(tokens)} tokens for {len(by_index)} indices."
        raise LegacyModelError(reason)
    return by_index
