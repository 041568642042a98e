"""Finds the functions of a SavedModel's objects."""

import dataclasses
from collections.abc import Iterator

from keras_policies.legacy.base.recorded import Trace
from keras_policies.legacy.guards.limit import Limit
from keras_policies.legacy.readers.checkpoint import protos
from keras_policies.legacy.readers.checkpoint.object_graph import Edges
from keras_policies.legacy.readers.saved_model.objects import (
    CALL,
    SERVING,
    SIGNATURES,
    SavedObjects,
    functions_of,
)

CALL_WITH_LOSSES = "call_and_return_conditional_losses"  # (outputs, losses)
DEFAULT_CALL = "_default_save_signature"  # of the model alone
REGULARIZERS = "regularization_losses"
MAX_TRACES = 200_000


class Traces:
    """The functions of a SavedModel's objects."""

    def __init__(self, objects: SavedObjects) -> None:
        self._objects = objects
        self._listed = Limit(MAX_TRACES, "functions of its layers")

    def signatures(self) -> dict[str, str]:
        """Return `{name of the signature: name of its function}`.

        Of a root without signatures, the functions that are its attributes.
        """
        found = self._signatures() or self._of_root()
        return {name: functions[0] for name, functions in found.items()}

    def of_signature(self) -> Iterator[Trace]:
        """Yield the traces of a root without Keras metadata: its serving signature's.

        If it has no signature of that name, its first one; if it has none, `__call__`
        or its first function.
        """
        named, default = self._signatures(), SERVING
        if not named:
            named, default = self._of_root(), CALL
        functions = named.get(default) or next(iter(named.values()), [])
        yield from map(self._objects.library.trace, functions)

    def _signatures(self) -> dict[str, list[str]]:
        children = self._objects.graph.children
        listed = children[0].get(SIGNATURES)
        return {} if listed is None else self._named(children[listed])

    def _of_root(self) -> dict[str, list[str]]:
        objects = self._objects
        return self._named(functions_of(objects.nodes, objects.graph.children[0]))

    def _named(self, nodes: Edges) -> dict[str, list[str]]:
        """Return the functions of objects, by their names; without those not traced."""
        found = ((name, self._functions(node)) for name, node in nodes.items())
        return {name: functions for name, functions in found if functions}

    def of_layer(self, edges: Edges) -> Iterator[Trace]:
        """Yield the traces of the `call` of a layer, whose edges are given."""
        for edge in (CALL, CALL_WITH_LOSSES, DEFAULT_CALL):
            names = self._functions(edges[edge]) if edge in edges else []
            for name in names:
                trace = self._objects.library.trace(name)
                if edge == CALL_WITH_LOSSES and trace.outputs:
                    trace = dataclasses.replace(trace, outputs=trace.outputs[0])
                yield trace
            if names:
                return

    def of_regularizers(self, edges: Edges) -> Iterator[Trace]:
        """Yield the functions of weights whose results are losses of a layer."""
        listed = edges.get(REGULARIZERS)
        nodes = {} if listed is None else self._objects.graph.children[listed]
        for node in nodes.values():
            for name in self._functions(node):
                yield self._objects.library.trace(name)

    def _functions(self, node: int) -> list[str]:
        """Return the names of the functions that an object stands for."""
        found = self._objects.nodes[node]
        names = list(found.function.concrete_functions)
        if found.bare_concrete_function:
            bare = protos.parse("SavedBareFunction", found.bare_concrete_function)
            names = [bare.concrete_function_name]
        self._listed.spend(len(names))
        return names
