"""Reads the functions of a SavedModel's objects: what they take, give and capture.

Source: tensorflow/core/protobuf/saved_object_graph.proto.
"""

import dataclasses
from collections.abc import Iterator

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.recorded import Trace
from keras_policies.legacy.readers.checkpoint.object_graph import Edges
from keras_policies.legacy.readers.saved_model import structures
from keras_policies.legacy.readers.saved_model.objects import (
    CALL,
    SERVING,
    SIGNATURES,
    SavedObjects,
)

CALL_WITH_LOSSES = "call_and_return_conditional_losses"  # (outputs, losses)
DEFAULT_CALL = "_default_save_signature"  # of the model alone


class Traces:
    """The functions of a SavedModel's objects."""

    def __init__(self, objects: SavedObjects) -> None:
        self._objects = objects

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
            yield self.trace(named.get(SERVING, next(iter(named.values()))))
        else:
            yield from self.of_layer(self._objects.graph.children[0])

    def of_layer(self, edges: Edges) -> Iterator[Trace]:
        """Yield the traces of the `call` of a layer, whose edges are given."""
        for edge in (CALL, CALL_WITH_LOSSES, DEFAULT_CALL):
            names = self._functions(edges[edge]) if edge in edges else []
            for name in names:
                trace = self.trace(name)
                if edge == CALL_WITH_LOSSES and trace.outputs:
                    trace = dataclasses.replace(trace, outputs=trace.outputs[0])
                yield trace
            if names:
                return

    def _functions(self, node: int) -> list[str]:
        """Return the names of the functions that an object stands for."""
        found = self._objects.nodes[node]
        bare = found.bare_concrete_function.concrete_function_name
        return [bare] if bare else list(found.function.concrete_functions)

    def trace(self, name: str) -> Trace:
        """Return the function of that name."""
        concrete = self._objects.library.concrete.get(name)
        if concrete is None:
            raise LegacyModelError(f"corrupt: there is no function {name!r} in it.")
        captures = tuple(concrete.bound_inputs)
        if any(not 0 <= number < len(self._objects.nodes) for number in captures):
            reason = f"corrupt: the function {name!r} captures what is not in the file."
            raise LegacyModelError(reason)
        inputs = structures.read(concrete.canonicalized_input_signature)
        if not isinstance(inputs, tuple) or len(inputs) != 2:
            reason = f"corrupt: the function {name!r} does not say what it takes."
            raise LegacyModelError(reason)
        outputs = structures.read(concrete.output_signature)
        return Trace(name, inputs, outputs, captures)
