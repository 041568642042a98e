"""The functions and constants of a SavedModel's graph, which are parsed when needed."""

import functools
from collections.abc import Mapping

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import Array
from keras_policies.legacy.base.recorded import Function
from keras_policies.legacy.readers.checkpoint import protos
from keras_policies.legacy.readers.checkpoint.protos import Message
from keras_policies.legacy.readers.saved_model import constants
from keras_policies.legacy.readers.saved_model.functions import FunctionReader
from keras_policies.legacy.readers.saved_model.lazy import Lazy


class Library:
    """The graph of a message `MetaGraph`.

    `functions` is `{name: Function}`.
    """

    def __init__(self, meta_graph: Message) -> None:
        self._meta_graph = meta_graph
        self._reader = FunctionReader()
        self._filled = constants.filled_bytes()
        self.functions = Lazy(self._stored, self._function)

    @functools.cached_property
    def _graph(self) -> Message:
        return protos.parse("Graph", self._meta_graph.graph_def)

    @functools.cached_property
    def _constants(self) -> Mapping[str, Message]:
        return {node.name: node for node in self._graph.node if node.op == "Const"}

    def _stored(self) -> Mapping[str, bytes]:
        stored = self._graph.library.function
        headers = (protos.parse("FunctionHeader", data) for data in stored)
        names = (header.signature.name for header in headers)
        return dict(zip(names, stored, strict=True))

    def _function(self, data: bytes) -> Function:
        return self._reader.read(protos.parse("FunctionDef", data))

    @functools.cached_property
    def concrete(self) -> Mapping[str, Message]:
        """Return `{name: ConcreteFunction}` of those that objects refer to."""
        stored = self._meta_graph.object_graph_def.concrete_functions
        named = (protos.parse("NamedConcreteFunction", data) for data in stored)
        return {item.key: item.value for item in named}

    def constant(self, name: str) -> Array:
        """Return a constant of the graph."""
        node = self._constants.get(name)
        for attr in () if node is None else node.attr:
            if attr.key == "value":
                return constants.read(name, attr.value.tensor, self._filled)
        raise LegacyModelError(f"corrupt: the graph has no constant {name!r}.")
