"""The functions and constants of a SavedModel's graph, which are parsed when needed."""

import functools
import pathlib
from collections.abc import Mapping, Sequence

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import Array
from keras_policies.legacy.base.recorded import Function, Trace
from keras_policies.legacy.guards import limits
from keras_policies.legacy.guards.budget import Limit
from keras_policies.legacy.readers.checkpoint import protos
from keras_policies.legacy.readers.checkpoint.protos import Message
from keras_policies.legacy.readers.saved_model import constants
from keras_policies.legacy.readers.saved_model.functions import FunctionReader
from keras_policies.legacy.readers.saved_model.lazy import Lazy
from keras_policies.legacy.readers.saved_model.structures import StructureReader

# What is parsed takes hundreds of times the bytes in the file.


class Library:
    """The graph of the message `MetaGraph` in the file at `path`.

    `functions` is `{name: Function}`, `traces` `{name: Trace}` of those functions that
    objects refer to.
    """

    def __init__(self, path: pathlib.Path, meta_graph: Message) -> None:
        self._meta_graph = meta_graph
        self._values = Limit(limits.GRAPH_VALUES, "nodes and values in its functions")
        self._functions = FunctionReader(self._values)
        self._structures = StructureReader(self._values)
        self.functions = Lazy(path, self._stored, self._function)
        self.traces = Lazy(path, self._concrete, self._trace)
        self._constants = Lazy(path, self._nodes, self._constant)

    @functools.cached_property
    def _graph(self) -> Message:
        return protos.parse("Graph", self._meta_graph.graph_def)

    def _stored(self) -> Mapping[str, bytes]:
        stored = _counted(self._graph.library.function)
        headers = (protos.parse("FunctionHeader", data) for data in stored)
        names = (header.signature.name for header in headers)
        return dict(zip(names, stored, strict=True))

    def _function(self, data: bytes) -> Function:
        return self._functions.read(
            protos.parse("FunctionDef", data, 2 * limits.GRAPH_VALUES)
        )

    def _concrete(self) -> Mapping[str, Message]:
        stored = _counted(self._meta_graph.object_graph_def.concrete_functions)
        named = (protos.parse("NamedConcreteFunction", data) for data in stored)
        return {item.key: item for item in named}

    def _trace(self, named: Message) -> Trace:
        name, concrete = named.key, named.value
        self._values.spend(len(concrete.bound_inputs))
        captures = tuple(concrete.bound_inputs)
        objects = len(self._meta_graph.object_graph_def.nodes)
        if any(not 0 <= number < objects for number in captures):
            reason = f"corrupt: the function {name!r} captures what is not in the file."
            raise LegacyModelError(reason)
        inputs = self._structures.read(concrete.canonicalized_input_signature)
        if not isinstance(inputs, tuple) or len(inputs) != 2:
            reason = f"corrupt: the function {name!r} does not say what it takes."
            raise LegacyModelError(reason)
        outputs = self._structures.read(concrete.output_signature)
        return Trace(name, inputs, outputs, captures)

    def trace(self, name: str) -> Trace:
        """Return the `Trace` of a function that an object refers to."""
        if name not in self.traces:
            raise LegacyModelError(f"corrupt: there is no function {name!r} in it.")
        return self.traces[name]

    def _nodes(self) -> Mapping[str, Message]:
        return {node.name: node for node in self._graph.node if node.op == "Const"}

    def _constant(self, node: Message) -> Array:
        values = (attr.value.tensor for attr in node.attr if attr.key == "value")
        return constants.read(node.name, next(values))

    def constant(self, name: str) -> Array:
        """Return a constant of the graph."""
        if name not in self._constants:
            raise LegacyModelError(f"corrupt: the graph has no constant {name!r}.")
        return self._constants[name]


def _counted(stored: Sequence[bytes]) -> Sequence[bytes]:
    Limit(limits.GRAPH_FUNCTIONS, "functions").spend(len(stored))
    return stored
