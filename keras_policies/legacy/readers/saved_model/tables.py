"""Reads the lookup tables of a SavedModel, and with them the vocabularies of layers.

Mutable tables are in the checkpoint (up to 2.5). When TensorFlow loads a static table,
a function of the graph fills it from two constants, or from a file among the assets.
Sources: tensorflow/python/ops/lookup_ops.py,
tensorflow/core/protobuf/saved_object_graph.proto.
"""

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from keras_policies.legacy.base import configs, walks
from keras_policies.legacy.base.configs import without_package
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.base.traced_functions import CALLS, Node, Table
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import budget, limits, texts
from keras_policies.legacy.guards.paths import check_inside
from keras_policies.legacy.readers.checkpoint.object_graph import ObjectGraph
from keras_policies.legacy.readers.checkpoint.protos import Message
from keras_policies.legacy.readers.saved_model.objects import SavedObjects

ASSETS = "assets"
TABLES = "lookup_table", "_table"  # since 2.6, and before
INNER_LAYERS = "_lookup_layer", "_index_lookup_layer"  # of TextVectorization, likewise
KEYS, VALUES = "-keys", "-values"
CREATE, FILL = "_create_resource", "_initialize"
FROM_FILE = "InitializeTableFromTextFile", "InitializeTableFromTextFileV2"
WHOLE_LINE, LINE_NUMBER = -2, -1  # in place of a column of a file
TAB = "\t"
DENSE = "MutableDenseHashTable", "MutableDenseHashTableV2"


class Tables:
    """The lookup tables of a SavedModel."""

    def __init__(self, objects: SavedObjects) -> None:
        self._objects = objects
        self._children = objects.graph.children

    def read(self, layer: int) -> Table | list[bytes] | None:
        """Return the table of a lookup layer, or the tokens in its file."""
        for edge in INNER_LAYERS:
            layer = self._children[layer].get(edge, layer)
        edges = self._children[layer]
        table = next((edges[name] for name in TABLES if name in edges), None)
        if table is None:
            return None
        return self._in_checkpoint(table) or self._in_graph(table, "iO")

    def numbers(self) -> dict[int, int]:
        """Return `{number: number}` of all tables."""
        return {at: at for at, edges in enumerate(self._children) if CREATE in edges}

    def content(self, table: int) -> Table | None:
        """Return the content of a table, or None if it is not in the file."""
        stored = self._in_checkpoint(table) or self._in_graph(table, "bifO")
        if isinstance(stored, list):
            fill, *_ = self._nodes(table, FILL, lambda n: n.op in FROM_FILE)
            create, *_ = self._nodes(
                table, CREATE, lambda n: "value_dtype" in n.attributes
            )
            return of_columns(stored, fill, create)
        if stored is None:
            return None
        keys, values = (part.shape for part in stored)
        if len(keys) != 1 or values[:1] != keys:
            shapes = f"{keys} for values of shape {values}"
            raise LegacyModelError(f"corrupt: a table has keys of shape {shapes}.")
        return stored

    def _nodes(
        self, table: int, edge: str, wanted: Callable[[Node], bool]
    ) -> list[Node]:
        """Return the wanted nodes of a function of a table, at least one."""
        start = self._objects.nodes[self._children[table][edge]].function
        functions = self._objects.library.functions

        def called(name: str) -> Iterator[str]:
            """Yield what a function calls: all it does if it was saved twice."""
            for node in functions[name].nodes.values() if name in functions else ():
                if node.op in CALLS:
                    yield str(node.attributes.get("f"))

        nodes: list[Node] = []
        for name in walks.reachable(start.concrete_functions, called):
            # All tables may share one function.
            found = [*functions[name].nodes.values()] if name in functions else []
            budget.work(budget.ITEM * (1 + len(found)))
            nodes += filter(wanted, found)
        if not nodes:
            raise LegacyModelError(f"corrupt: the function {edge} of a table is empty.")
        return nodes

    def _in_checkpoint(self, table: int) -> Table | None:
        objects = self._objects
        if table not in objects.in_checkpoint:
            return None
        there = objects.checkpoint_nodes[objects.in_checkpoint[table]]
        for attribute in there.attributes:
            key = attribute.checkpoint_key
            if f"{key}{KEYS}" in objects.checkpoint.entries:
                read = objects.checkpoint.read
                stored = Table(read(f"{key}{KEYS}"), read(f"{key}{VALUES}"))
                if stored.keys.ndim == 2:
                    stored = self._without_empty_rows(table, stored)
                return stored if stored.keys.size else None
        return None

    def _without_empty_rows(self, table: int, stored: Table) -> Table:
        """Return the content of a dense table, whose keys and values are rows.

        Two special keys mark empty rows and deleted rows.
        """
        dense, *_ = self._nodes(table, CREATE, lambda node: node.op in DENSE)
        is_special = np.zeros(len(stored.keys), bool)
        keys = stored.keys[:, 0]
        names = {output.node for output in dense.inputs}
        for node in self._nodes(table, CREATE, lambda node: node.name in names):
            is_special |= keys == node.attributes["value"]
        return Table(keys[~is_special], stored.values[~is_special].squeeze(-1))

    def _in_graph(self, table: int, kinds: str) -> Table | list[bytes] | None:
        """Return the constants that fill a table, or the lines of a file.

        The constants must have one of these kinds of numpy.
        """
        inputs = self._inputs(table)
        assets = [node for node in inputs if node.HasField("asset")]
        constants = [node.constant for node in inputs if node.HasField("constant")]
        if assets:
            number = assets[0].asset.asset_file_def_index
            files = self._objects.meta_graph.asset_file_def
            name = files[number].filename if 0 <= number < len(files) else ""
            return lines_of(self._objects.folder, name)
        if len(constants) != 2:
            return None
        names = [node.operation for node in constants]
        read = self._objects.library.constant
        return Table(*(checked(name, read(name), kinds) for name in names))

    def _inputs(self, table: int) -> list[Message]:
        """Return the inputs of the function that fills a table."""
        nodes, trace = self._objects.nodes, self._objects.library.trace
        if FILL not in self._children[table]:
            return []
        names = nodes[self._children[table][FILL]].function.concrete_functions
        captures = (number for name in names for number in trace(name).captures)
        return [nodes[number] for number in captures if number != table]


def checked(name: str, values: Array, kinds: str) -> Array:
    """Return a constant with the values of a table, or raise if its dtype is wrong."""
    if values.dtype.kind not in kinds:
        raise LegacyModelError(
            f"{name}: corrupt: values of type {values.dtype}, expected integers or "
            "strings."
        )
    if values.size > limits.VOCABULARY_TOKENS:
        reason = f"{name}: corrupt: {values.size} tokens in a vocabulary."
        raise LegacyModelError(reason)
    return values


def of_columns(lines: list[bytes], fill: Node, create: Node) -> Table:
    """Return the table that two nodes make from the lines of a file."""
    delimiter = str(fill.attributes.get("delimiter", TAB)).encode()
    columns = (
        _column(lines, delimiter, fill.attributes[index], create.attributes[dtype])
        for index, dtype in (("key_index", "key_dtype"), ("value_index", "value_dtype"))
    )
    return Table(*columns)


def lines_of(folder: pathlib.Path, name: str) -> list[bytes]:
    """Return the lines of an asset of a SavedModel, as TensorFlow reads them."""
    if not name or name in (".", "..") or pathlib.PurePath(name).name != name:
        raise LegacyModelError(f"corrupt: its vocabulary is in {name!r}.")
    path = folder / ASSETS / name
    if not path.is_file():
        reason = f"its vocabulary {ASSETS}/{name} is missing."
        raise LegacyModelError(reason, "Copy the whole folder.", code="KP106")
    check_inside(path, folder)
    size = path.stat().st_size
    if size > limits.VOCABULARY_BYTES:
        raise LegacyModelError(
            f"its vocabulary {ASSETS}/{name} has {size} bytes, expected at most "
            f"{limits.VOCABULARY_BYTES}.",
            code="KP201",
        )
    lines = texts.vocabulary(path.read_bytes().replace(b"\r", b""))
    return lines[:-1] if lines[-1] == b"" else lines


def tokens_by_layer(objects: SavedObjects) -> dict[str, dict[int, Any]]:
    """Return `{path: {index: token}}` of the lookup layers of a SavedModel."""
    graph, tables = objects.graph, Tables(objects)
    tokens: dict[str, dict[int, Any]] = {}
    lookups = {n for n in graph.metadata if _class_name(graph, n) in configs.LOOKUPS}
    for path, node in graph.walk(0, graph.inner_layers, lookups):
        if node in lookups and path not in tokens:
            with located(layer=path):
                content = tables.read(node)
                if content is not None:
                    tokens[path] = _by_index(graph, node, content)
    return tokens


def _class_name(graph: ObjectGraph, node: int) -> str:
    return without_package(str(graph.metadata.get(node, {}).get("class_name")))


def _by_index(
    graph: ObjectGraph, node: int, content: Table | list[bytes]
) -> dict[int, Any]:
    """Return `{index: token}` from what `Tables.read` returns for a layer."""
    config = configs.settings(graph.metadata[node])
    if isinstance(content, list):
        start = len(configs.special_tokens(_class_name(graph, node), config))
        return dict(enumerate(content, start))
    keys, values = (part.reshape(-1).tolist() for part in content)
    tokens, indices = (values, keys) if config.get("invert") else (keys, values)
    by_index = dict(zip(indices, tokens, strict=False))
    are_numbers = all(isinstance(index, int) for index in indices)
    if not are_numbers or not len(tokens) == len(indices) == len(by_index):
        reason = f"corrupt: {len(tokens)} tokens for {len(by_index)} indices."
        raise LegacyModelError(reason)
    return by_index


def _column(lines: list[bytes], delimiter: bytes, index: int, dtype: str) -> Array:
    """Return a column of the lines of a file; see `WHOLE_LINE`, `LINE_NUMBER`."""
    if index == LINE_NUMBER:
        return np.arange(len(lines))
    cells = lines
    if index != WHOLE_LINE:
        columns = [line.split(delimiter) for line in lines]
        if any(not 0 <= index < len(parts) for parts in columns):
            reason = f"its vocabulary has no column {index} in each of its lines."
            raise LegacyModelError(reason)
        cells = [parts[index] for parts in columns]
    values = np.array(cells, object)
    return values if dtype == "string" else values.astype(dtype)
