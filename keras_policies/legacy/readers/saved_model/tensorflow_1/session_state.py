"""The variables and the lookup tables of a graph that TensorFlow 1 ran in a session.

The checkpoint has variables under the names of their nodes, or under the name that the
parts of a partitioned one share. A node fills a table from constants or an asset.
"""

import collections
import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Mapping

import numpy as np

from keras_policies.legacy.base.traced_functions import Node, Output, Table
from keras_policies.legacy.base.weights import Array, LegacyWeight
from keras_policies.legacy.guards import limits
from keras_policies.legacy.readers.checkpoint import protos
from keras_policies.legacy.readers.checkpoint.checkpoint import Checkpoint, TensorEntry
from keras_policies.legacy.readers.checkpoint.protos import Message
from keras_policies.legacy.readers.saved_model import tables
from keras_policies.legacy.readers.saved_model.library import Lazy, Library
from keras_policies.legacy.readers.saved_model.objects import MODEL_FILE, VARIABLES
from keras_policies.legacy.readers.saved_model.tensorflow_1 import subgraphs

DECLARED, TRAINED, ASSETS = "variables", "trainable_variables", "saved_model_assets"
JOINED = "/ConcatPartitions/concat"  # suffix of the node that joins a variable's parts
FROM_TENSORS = "InitializeTable", "InitializeTableV2", "LookupTableImportV2"


class State:
    """The graph of a session, with its variables and tables.

    `graph` makes functions of its parts. Variables and tables have the numbers of their
    nodes, which `numbers` maps names to; 0 is the model.
    """

    def __init__(
        self, folder: pathlib.Path, meta_graph: Message, library: Library
    ) -> None:
        self._folder, self._meta_graph = folder, meta_graph
        nodes, self._checkpoint = library.graph.node, None
        if any(node.op in subgraphs.VARIABLE_OPS for node in nodes):
            self._checkpoint = Checkpoint(folder / VARIABLES, folder)
        for node in nodes:
            if node.op == "ConcatV2" and _joined_name(node.name) in self._entries:
                node.op = "VariableV2"  # its parts are stored together
        self.graph = subgraphs.Subgraphs(
            nodes, library.reader, library.functions, library.values
        )
        self.numbers = {node.name: number for number, node in enumerate(nodes, 1)}
        self.variables = dict(self._variables())
        self.tables = Lazy(folder / MODEL_FILE, self._fills, self._table)

    @property
    def _entries(self) -> Mapping[str, TensorEntry]:
        return {} if self._checkpoint is None else self._checkpoint.entries

    def trainable(self) -> Iterator[int]:
        """Yield the numbers of the trained variables, of all if the file lists none."""
        names = {_name(item) for item in self._declared(TRAINED)}
        parts = names & self._parts.keys()
        names |= {f"{self._parts[name].full_name}{JOINED}" for name in parts}
        for name, number in self.numbers.items():
            if number in self.variables and (not names or name in names):
                yield number

    def _variables(self) -> Iterator[tuple[int, LegacyWeight]]:
        for node in self.graph.nodes(*subgraphs.VARIABLE_OPS):
            if (weight := self._weight(node)) is not None:
                number = self.numbers[node.name]
                yield number, dataclasses.replace(weight, number=number)

    def _weight(self, node: Node) -> LegacyWeight | None:
        checkpoint, name = self._checkpoint, node.name
        if checkpoint is None:
            return None
        shared = node.attributes.get("shared_name")
        for key in (name, shared, _joined_name(name), self._keys.get(name)):
            if key in checkpoint.entries:
                return checkpoint.weight(key, name)
        part = self._parts.get(name)
        if part is None or part.full_name not in checkpoint.entries:
            return None
        entry = checkpoint.entries[part.full_name]
        if not entry.places:
            return checkpoint.weight(entry.key, name)
        return checkpoint.part(entry.key, name, part)

    @functools.cached_property
    def _keys(self) -> dict[str, str]:
        """The keys of variables in a checkpoint of a Keras model, by unique names."""
        nodes = () if self._checkpoint is None else self._checkpoint.nodes()
        attributes = [item for node in nodes for item in node.attributes]
        count = collections.Counter(item.full_name for item in attributes)
        single = (item for item in attributes if count[item.full_name] == 1)
        return {item.full_name: item.checkpoint_key for item in single}

    @functools.cached_property
    def _parts(self) -> dict[str, Message]:
        """The messages `SliceInfo` of partial variables, by name."""
        declared = self._declared(DECLARED) + self._declared(TRAINED)
        return {
            _name(item): item.save_slice_info_def
            for item in declared
            if item.HasField("save_slice_info_def")
        }

    def _declared(self, collection: str) -> list[Message]:
        values = self._collections[collection].bytes_list.value
        return [protos.parse("VariableDef", value) for value in values]

    @functools.cached_property
    def _collections(self) -> Mapping[str, Message]:
        """The messages `Collection` by name, with empty ones for other names."""
        empty = functools.partial(protos.parse, "Collection", b"")
        stored = self._meta_graph.collection_def
        named = (protos.parse("NamedCollection", data) for data in stored)
        return collections.defaultdict(empty, {one.key: one.value for one in named})

    def _fills(self) -> dict[int, Node]:
        """Return the nodes that fill tables, by the numbers of the tables."""
        return {
            self.numbers[self.graph.source(node.inputs[0]).name]: node
            for node in self.graph.nodes(*tables.FROM_FILE, *FROM_TENSORS)
        }

    def _table(self, fill: Node) -> Table | None:
        """Return the content of a table, or None if the graph computes it."""
        table = self.graph.source(fill.inputs[0])
        if fill.op in FROM_TENSORS:
            dtypes = (table.attributes[key] for key in ("key_dtype", "value_dtype"))
            keys, values = map(self._values, fill.inputs[1:], dtypes)
            if keys is None or values is None:
                return None
            return Table(keys.reshape(-1), values.reshape(-1))
        name = self._assets.get(f"{self.graph.source(fill.inputs[1]).name}:0", "")
        return tables.of_columns(tables.lines_of(self._folder, name), fill, table)

    @functools.cached_property
    def _assets(self) -> dict[str, str]:
        """The names of assets, by the tensors that hold their paths."""
        stored = self._collections[ASSETS].any_list.value
        assets = [protos.parse("AssetFile", item.value) for item in stored]
        return {asset.tensor_info.name: asset.filename for asset in assets}

    def _values(self, output: Output, dtype: str) -> Array | None:
        """Return the keys or values of a table, or None if the graph computes them."""
        node = self.graph.source(output)
        if node.op == "Const":
            values = tables.checked(node.name, node.attributes["value"], "bifO")
            return values if dtype == "string" else values.astype(dtype)
        ends = [self.graph.source(item).attributes.get("value") for item in node.inputs]
        bounds = [int(end) for end in ends if end is not None]
        if node.op != "Range" or len(bounds) != len(ends):
            return None
        numbers = range(*bounds)
        is_short = len(numbers) <= limits.VOCABULARY_TOKENS
        return np.array(numbers, dtype) if is_short else None


def _joined_name(name: str) -> str:
    """Return the variable whose parts a node joins, or ""."""
    return name.removesuffix(JOINED) if name.endswith(JOINED) else ""


def _name(declared: Message) -> str:
    name: str = declared.variable_name
    return name.removesuffix(":0")
