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
)

CALL_WITH_LOSSES = "call_and_return_conditional_losses"  # (outputs, losses)
ACTIVITY_REGULARIZER = "activity_regularizer_fn"  # of an output
DEFAULT_CALL = "_default_save_signature"  # of the model alone
REGULARIZERS = "regularization_losses"
MAX_TRACES = 200_000


class Traces:
    """The functions of a SavedModel's objects."""

    def __init__(self, objects: SavedObjects) -> None:
        self._objects = objects
        self._listed = Limit(MAX_TRACES, "functions of its layers")

    def signatures(self) -> dict[str, str]:
        """Return `{name of the signature: name of its function}`."""
        children = self._objects.graph.children
        listed = children[0].get(SIGNATURES)
        named = {} if listed is None else children[listed]
        found = ((name, self._functions(node)) for name, node in named.items())
        return {name: names[0] for name, names in found if names}

    def of_signature(self) -> Iterator[Trace]:
        """Yield the traces of a root without Keras metadata: its serving signature's.

        If it has no signature of that name, its first one; if it has none, `__call__`.
        """
        named = self.signatures()
        if named:
            name = named.get(SERVING, next(iter(named.values())))
            yield self._objects.library.trace(name)
        else:
            yield from self.of_layer(self._objects.graph.children[0])

    def of_layer(self, edges: Edges) -> Iterator[Trace]:
        """Yield the traces of the `call` of a layer, whose edges are given."""
        for edge in (CALL, CALL_WITH_LOSSES, DEFAULT_CALL):
            names = self._functions(edges[edge]) if edge in edges else []
            for name in names:
                trace = self._objects.library.trace(name)
                yield _divided(trace) if edge == CALL_WITH_LOSSES else trace
            if names:
                return

    def with_losses(self, edges: Edges) -> Iterator[Trace]:
        """Yield the traces of the `call` of a layer that return its losses, too."""
        if CALL_WITH_LOSSES in edges:
            for name in self._functions(edges[CALL_WITH_LOSSES]):
                yield _divided(self._objects.library.trace(name))

    def activity_regularizer(self, edges: Edges) -> Trace | None:
        """Return the function of an output whose result is a loss of a layer."""
        node = edges.get(ACTIVITY_REGULARIZER)
        names = [] if node is None else self._functions(node)
        return self._objects.library.trace(names[0]) if names else None

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


def _divided(trace: Trace) -> Trace:
    """Return the trace of a function that returns `(outputs, losses)`."""
    if not isinstance(trace.outputs, tuple) or len(trace.outputs) != 2:
        return trace
    outputs, losses = trace.outputs
    return dataclasses.replace(trace, outputs=outputs, losses=losses)
