"""The functions and constants of a SavedModel's graph, parsed on demand."""

import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from keras_policies.legacy.base.errors import LegacyModelError, corrupt
from keras_policies.legacy.base.traced_functions import (
    ConcreteFunction,
    Function,
    Gradient,
    Output,
)
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import limits
from keras_policies.legacy.guards.budget import Limit
from keras_policies.legacy.readers.checkpoint import protos
from keras_policies.legacy.readers.checkpoint.protos import Message
from keras_policies.legacy.readers.saved_model import functions
from keras_policies.legacy.readers.saved_model.functions import FunctionReader

K = TypeVar("K")
S = TypeVar("S")
V = TypeVar("V")


class Lazy(Mapping[K, V], Generic[K, S, V]):
    """A mapping that makes each value once, from a source with the same key.

    Errors name the file at `path`.
    """

    def __init__(
        self,
        path: pathlib.Path,
        sources: Callable[[], Mapping[K, S]],
        make: Callable[[S], V],
    ) -> None:
        self._path = path
        self._find_sources = sources
        self._make = make
        self._items: dict[K, V] = {}

    @functools.cached_property
    def _sources(self) -> Mapping[K, S]:
        with corrupt(self._path):
            return self._find_sources()

    def __getitem__(self, key: K) -> V:
        if key not in self._items:
            source = self._sources[key]
            with corrupt(self._path):
                self._items[key] = self._make(source)
        return self._items[key]

    def source(self, key: K) -> S | None:
        """Return what a value is made from, or None."""
        return self._sources.get(key)

    def __contains__(self, key: object) -> bool:
        return key in self._sources

    def __iter__(self) -> Iterator[K]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)


class Library:
    """The graph of the message `MetaGraph` in the file at `path`.

    `functions` is `{name: Function}`, `traces` is `{name: ConcreteFunction}` of those
    that objects refer to. `reader` reads nodes; `values` limits how many.
    """

    def __init__(self, path: pathlib.Path, meta_graph: Message) -> None:
        self._meta_graph = meta_graph
        self.values = Limit(limits.GRAPH_VALUES, "nodes and values in its functions")
        self.reader = FunctionReader(self.values)
        self.functions = Lazy(path, self._stored, self._function)
        self.traces = Lazy(path, self._concrete, self._trace)
        self._constants = Lazy(path, self._nodes, self._constant)

    @functools.cached_property
    def graph(self) -> Message:
        """The message `Graph`."""
        return protos.parse("Graph", self._meta_graph.graph_def)

    def _stored(self) -> Mapping[str, bytes]:
        stored = _counted(self.graph.library.function)
        headers = (protos.parse("FunctionHeader", data) for data in stored)
        names = (header.signature.name for header in headers)
        return dict(zip(names, stored, strict=True))

    def _function(self, data: bytes) -> Function:
        message = protos.parse("FunctionDef", data, 2 * limits.GRAPH_VALUES)
        return self.reader.function(message)

    def _concrete(self) -> Mapping[str, Message]:
        stored = _counted(self._meta_graph.object_graph_def.concrete_functions)
        named = (protos.parse("NamedConcreteFunction", data) for data in stored)
        return {item.key: item for item in named}

    def _trace(self, named: Message) -> ConcreteFunction:
        name, concrete = named.key, named.value
        self.values.spend(len(concrete.bound_inputs))
        captures = tuple(concrete.bound_inputs)
        objects = len(self._meta_graph.object_graph_def.nodes)
        if any(not 0 <= number < objects for number in captures):
            reason = f"corrupt: the function {name!r} captures missing objects."
            raise LegacyModelError(reason)
        inputs = self.reader.structure(concrete.canonicalized_input_signature)
        if not isinstance(inputs, tuple) or len(inputs) != 2:
            reason = f"corrupt: the function {name!r} does not record its arguments."
            raise LegacyModelError(reason)
        outputs = self.reader.structure(concrete.output_signature)
        return ConcreteFunction(name, inputs, outputs, captures)

    def gradients(self) -> Mapping[str, Message]:
        """Return the messages of the recorded gradients, by the types of nodes."""
        entries = _counted(self.graph.library.registered_gradients)
        return {entry.registered_op_type: entry for entry in entries}

    def gradient(self, nodes: Sequence[Message], entry: Message) -> Gradient:
        """Return a recorded gradient; `nodes` are the objects of the file."""
        concrete = self.traces.source(entry.gradient_func)
        numbers = () if concrete is None else concrete.value.bound_inputs
        self.values.spend(len(numbers))
        tensors = [nodes[number].captured_tensor for number in numbers]
        names = [tensor.name.rpartition(":") for tensor in tensors]
        captures = (Output(name, "", int(position)) for name, _, position in names)
        return Gradient(entry.gradient_func, tuple(captures))

    def trace(self, name: str) -> ConcreteFunction:
        """Return the trace of a function that an object refers to."""
        if name not in self.traces:
            raise LegacyModelError(f"corrupt: there is no function {name!r} in it.")
        return self.traces[name]

    def _nodes(self) -> Mapping[str, Message]:
        return {node.name: node for node in self.graph.node if node.op == "Const"}

    def _constant(self, node: Message) -> Array:
        values = (attr.value.tensor for attr in node.attr if attr.key == "value")
        return functions.constant(node.name, next(values))

    def constant(self, name: str) -> Array:
        """Return a constant of the graph."""
        if name not in self._constants:
            raise LegacyModelError(f"corrupt: the graph has no constant {name!r}.")
        return self._constants[name]


def _counted(stored: Sequence[V]) -> Sequence[V]:
    Limit(limits.GRAPH_FUNCTIONS, "functions").spend(len(stored))
    return stored
