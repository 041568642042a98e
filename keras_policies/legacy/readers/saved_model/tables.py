"""Reads the lookup tables of a SavedModel: tokens and their indices.

A table that can change lies in the checkpoint (up to 2.5). A static one is filled, when
TensorFlow loads it, by a function of the graph: its inputs are two constants of the
graph, or a file among the assets. Sources: tensorflow/python/ops/lookup_ops.py,
tensorflow/core/protobuf/saved_object_graph.proto.
"""

import functools
import math
import pathlib
from typing import Any

import numpy as np

from keras_policies.legacy.base import lookups
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.guards.paths import check_inside
from keras_policies.legacy.readers.checkpoint import protos
from keras_policies.legacy.readers.checkpoint.protos import Message
from keras_policies.legacy.readers.checkpoint.tensors import DTYPES, STRING
from keras_policies.legacy.readers.saved_model.objects import SavedObjects

ASSETS = "assets"
TABLES = "lookup_table", "_table"  # 2.6 and on, before
INNER_LAYERS = "_lookup_layer", "_index_lookup_layer"  # of TextVectorization, likewise
KEYS, VALUES = "-keys", "-values"


def constant(name: str, tensor: Message) -> list[Any]:
    """Return the values of the constant `name`, integers or strings, as a flat list."""
    sizes = [dim.size for dim in tensor.tensor_shape.dim]
    dtype = DTYPES.get(tensor.dtype, np.dtype("float32"))
    if tensor.dtype != STRING and dtype.kind != "i":
        raise LegacyModelError(
            f"{name}: corrupt: values of type {dtype}, expected integers or strings."
        )
    if tensor.dtype == STRING:
        values = list(tensor.string_val)
    elif not tensor.tensor_content:
        values = [*tensor.int64_val, *tensor.int_val]
    elif len(tensor.tensor_content) % dtype.itemsize == 0:
        stored = np.frombuffer(tensor.tensor_content, dtype.newbyteorder("<"))
        values = stored.tolist()
    else:
        values = []
    if min(sizes, default=0) < 0 or len(values) != math.prod(sizes):
        reason = f"{name}: corrupt: {len(values)} values for the shape {tuple(sizes)}."
        raise LegacyModelError(reason)
    return values


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
        captured = (self._functions.get(name, ()) for name in names)
        numbers = [number for every in captured for number in every if number != table]
        if any(not 0 <= number < len(nodes) for number in numbers):
            reason = "corrupt: the inputs of its table are not in the file."
            raise LegacyModelError(reason)
        return [nodes[number] for number in numbers]

    @functools.cached_property
    def _functions(self) -> dict[str, tuple[int, ...]]:
        """Return `{name: numbers of the objects that the function captures}`."""
        stored = self._objects.meta_graph.object_graph_def.concrete_functions
        named = [protos.parse("NamedConcreteFunction", data) for data in stored]
        return {item.key: tuple(item.value.bound_inputs) for item in named}

    @functools.cached_property
    def _constants(self) -> dict[str, Message]:
        graph = protos.parse("Graph", self._objects.meta_graph.graph_def)
        return {node.name: node for node in graph.node if node.op == "Const"}

    def _constant(self, name: str) -> list[Any]:
        node = self._constants.get(name)
        for attr in () if node is None else node.attr:
            if attr.key == "value":
                return constant(name, attr.value.tensor)
        raise LegacyModelError(f"corrupt: the graph has no constant {name!r}.")

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
        if size > lookups.MAX_VOCABULARY_BYTES:
            raise LegacyModelError(
                f"its vocabulary {ASSETS}/{name} has {size} bytes, expected at most "
                f"{lookups.MAX_VOCABULARY_BYTES}."
            )
        lines = lookups.lines(path.read_bytes().replace(b"\r", b""))
        return lines[:-1] if lines[-1] == b"" else lines
