"""Reads the lookup tables of a SavedModel: tokens and their indices.

A table that can change lies in the checkpoint (up to 2.5). A static one is filled, when
TensorFlow loads it, by a function of the graph: its inputs are two constants of the
graph, or a file among the assets. Sources: tensorflow/python/ops/lookup_ops.py,
tensorflow/core/protobuf/saved_object_graph.proto.
"""

import math
import pathlib

import numpy as np

from keras_policies.legacy.base import lookups
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.guards.paths import check_inside
from keras_policies.legacy.readers.checkpoint import protos
from keras_policies.legacy.readers.checkpoint.checkpoint import DTYPES, STRING

ASSETS = "assets"
MAX_ASSET_BYTES = 128 * 1024 * 1024
TABLES = "lookup_table", "_table"  # 2.6 and on, before
INNER_LAYERS = "_lookup_layer", "_index_lookup_layer"  # of TextVectorization, likewise
KEYS, VALUES = "-keys", "-values"


def constant(tensor, where):
    """Return the values of a `Tensor` of integers or of strings, as a flat list.

    Args:
        tensor: the message `Tensor`.
        where: str, for errors.
    """
    sizes = [dim.size for dim in tensor.tensor_shape.dim]
    dtype = DTYPES.get(tensor.dtype, np.dtype("float32"))
    if tensor.dtype != STRING and dtype.kind != "i":
        raise LegacyModelError(f"{where}: corrupt: of the type {dtype}, no table's.")
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
        raise LegacyModelError(
            f"{where}: corrupt: {len(values)} values for the shape {tuple(sizes)}."
        )
    return values


class Tables:
    """The lookup tables of a SavedModel.

    Args:
        folder: `pathlib.Path`.
        meta_graph: the message `MetaGraph`.
        children: `[{edge: node}]`.
        checkpoint: `Checkpoint`.
        saved: nodes of the checkpoint's object graph.
        saved_node: `{node: node in the checkpoint's graph}`.
    """

    def __init__(self, folder, meta_graph, children, checkpoint, saved, saved_node):
        self._folder = folder
        self._meta_graph = meta_graph
        self._nodes = meta_graph.object_graph_def.nodes
        self._children = children
        self._checkpoint = checkpoint
        self._saved = saved
        self._saved_node = saved_node
        self._parsed = {}

    def read(self, layer, where):
        """Return what the table of a lookup layer holds, or None.

        Args:
            layer: int, the node of the layer.
            where: str, the layer, for errors.

        Returns:
            `(keys, values)`, two lists of ints or bytes; or `(lines, None)`, the lines
            of a file, each a token.
        """
        for edge in INNER_LAYERS:
            layer = self._children[layer].get(edge, layer)
        edges = self._children[layer]
        table = next((edges[name] for name in TABLES if name in edges), None)
        if table is None:
            return None
        return self._in_checkpoint(table) or self._in_graph(table, where)

    def _in_checkpoint(self, table):
        node = self._saved_node.get(table)
        for attribute in () if node is None else self._saved[node].attributes:
            key = attribute.checkpoint_key
            if f"{key}{KEYS}" in self._checkpoint.entries:
                keys = self._checkpoint.read(f"{key}{KEYS}").reshape(-1).tolist()
                values = self._checkpoint.read(f"{key}{VALUES}").reshape(-1).tolist()
                return (keys, values) if keys else None
        return None

    def _in_graph(self, table, where):
        inputs = self._inputs(table, where)
        assets = [node for node in inputs if node.HasField("asset")]
        constants = [node for node in inputs if node.HasField("constant")]
        if assets:
            return self._lines(assets[0].asset.asset_file_def_index, where), None
        if len(constants) != 2:
            return None
        keys, values = (self._constant(item.constant, where) for item in constants)
        return keys, values

    def _inputs(self, table, where):
        """Return the objects that the function which fills a table takes."""
        initialize = self._children[table].get("_initialize")
        if initialize is None:
            return []
        numbers = [
            number
            for name in self._nodes[initialize].function.concrete_functions
            for number in self._functions(where).get(name, ())
            if number != table
        ]
        if any(not 0 <= number < len(self._nodes) for number in numbers):
            raise LegacyModelError(f"{where}: corrupt: its table is filled by nothing.")
        return [self._nodes[number] for number in numbers]

    def _functions(self, where):
        """Return `{name: numbers of the objects it takes}`."""
        if "functions" not in self._parsed:
            stored = self._meta_graph.object_graph_def.concrete_functions
            named = [protos.parse("NamedConcreteFunction", f, where) for f in stored]
            found = {item.key: tuple(item.value.bound_inputs) for item in named}
            self._parsed["functions"] = found
        return self._parsed["functions"]

    def _constant(self, saved, where):
        if "constants" not in self._parsed:
            graph = protos.parse("Graph", self._meta_graph.graph_def, where)
            constants = {node.name: node for node in graph.node if node.op == "Const"}
            self._parsed["constants"] = constants
        node = self._parsed["constants"].get(saved.operation)
        for attr in () if node is None else node.attr:
            if attr.key == "value":
                return constant(attr.value.tensor, f"{where}: {saved.operation}")
        raise LegacyModelError(
            f"{where}: corrupt: the graph has no constant {saved.operation!r}."
        )

    def _lines(self, number, where):
        """Return the lines of an asset, as TensorFlow reads them."""
        files = self._meta_graph.asset_file_def
        name = files[number].filename if 0 <= number < len(files) else ""
        if not name or name in (".", "..") or pathlib.PurePath(name).name != name:
            raise LegacyModelError(f"{where}: corrupt: its vocabulary is in {name!r}.")
        path = self._folder / ASSETS / name
        if not path.is_file():
            raise LegacyModelError(
                f"{where}: its vocabulary {path} is missing. Copy the whole folder."
            )
        check_inside(path, self._folder)
        if path.stat().st_size > MAX_ASSET_BYTES:
            raise LegacyModelError(f"{path}: larger than {MAX_ASSET_BYTES} bytes.")
        text = path.read_bytes().replace(b"\r", b"")
        lines = lookups.lines(text, path)
        return lines[:-1] if lines[-1] == b"" else lines
