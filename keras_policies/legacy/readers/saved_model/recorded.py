"""Reads what the layers of a SavedModel did: their functions, and what these capture.

Sources: keras/saving/legacy/saved_model/{save_impl,load}.py,
tensorflow/core/protobuf/saved_object_graph.proto.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import Array, Config
from keras_policies.legacy.base.recorded import Recorded, RecordedLayer, Trace
from keras_policies.legacy.readers.checkpoint.object_graph import (
    BOOKKEEPING,
    LAYER_WITH_WEIGHTS,
    Edges,
    Weights,
)
from keras_policies.legacy.readers.saved_model import structures
from keras_policies.legacy.readers.saved_model.lazy import Lazy
from keras_policies.legacy.readers.saved_model.objects import SavedObjects

METRIC = "_tf_keras_metric"
CALL = "__call__"
CALL_WITH_LOSSES = "call_and_return_conditional_losses"  # (outputs, losses)
DEFAULT_CALL = "_default_save_signature"  # of the model alone
WITHOUT_CONFIG = "layer was saved without config"
IN_METADATA = "name", "trainable", "dtype"  # also where a layer has no config


def read(objects: SavedObjects, weights: Weights) -> Recorded:
    """Return what is recorded; `weights` are those of the model, with their paths."""
    reader = _Reader(objects)
    return Recorded(
        layers=Lazy(reader.layers, reader.layer),
        variables={**objects.graph.variables, **weights},
        constants=Lazy(reader.constants, reader.constant),
        functions=objects.library.functions,
        signatures=Lazy(reader.signatures, reader.trace),
    )


class _Reader:
    def __init__(self, objects: SavedObjects) -> None:
        self._objects = objects
        self._graph = objects.graph
        self._nodes = objects.nodes

    def layers(self) -> dict[int, int]:
        return {
            number: number
            for number in self._graph.metadata
            if 0 <= number < len(self._nodes)
            and self._nodes[number].user_object.identifier != METRIC
        }

    def constants(self) -> dict[int, str]:
        return {
            number: node.constant.operation
            for number, node in enumerate(self._nodes)
            if node.HasField("constant")
        }

    def constant(self, name: str) -> Callable[[], Array]:
        return functools.partial(self._objects.library.constant, name)

    def signatures(self) -> dict[str, str]:
        """Return `{name of the signature: name of its function}`."""
        children = self._graph.children
        listed = children[0].get("signatures")
        named = {} if listed is None else children[listed]
        found = ((name, self._functions(node)) for name, node in named.items())
        return {name: names[0] for name, names in found if names}

    def _functions(self, node: int | None) -> list[str]:
        """Return the names of the functions that an object stands for."""
        if node is None:
            return []
        bare = self._nodes[node].bare_concrete_function.concrete_function_name
        return [bare] if bare else list(self._nodes[node].function.concrete_functions)

    def trace(self, name: str) -> Trace:
        concrete = self._objects.library.concrete.get(name)
        if concrete is None:
            raise LegacyModelError(f"corrupt: there is no function {name!r} in it.")
        captures = tuple(concrete.bound_inputs)
        if any(not 0 <= number < len(self._nodes) for number in captures):
            reason = f"corrupt: the function {name!r} captures what is not in the file."
            raise LegacyModelError(reason)
        inputs = structures.read(concrete.canonicalized_input_signature)
        if not isinstance(inputs, tuple) or len(inputs) != 2:
            reason = f"corrupt: the function {name!r} does not say what it takes."
            raise LegacyModelError(reason)
        outputs = structures.read(concrete.output_signature)
        return Trace(name, inputs, outputs, captures)

    def layer(self, node: int) -> RecordedLayer:
        metadata = self._graph.metadata[node]
        recorded = metadata.get("config")
        config: Config = {key: metadata[key] for key in IN_METADATA if key in metadata}
        if isinstance(recorded, dict) and not recorded.get(WITHOUT_CONFIG):
            config.update(recorded)
        class_name = str(metadata.get("class_name"))
        variables = tuple(self._graph.weights(node))
        return RecordedLayer(
            class_name=class_name,
            config=config,
            name=str(metadata.get("name") or class_name),
            children=dict(self._children(node)),
            variables=variables,
            trainable=self._trainable(node, variables),
            traces=tuple(self._traces(node)),
        )

    def _edges(self, node: int) -> Edges:
        """Return the edges of a layer, with those of its part `keras_api`."""
        edges = self._graph.children[node]
        api = edges.get("keras_api")
        return edges if api is None else {**self._graph.children[api], **edges}

    def _trainable(self, node: int, variables: tuple[int, ...]) -> tuple[int, ...]:
        listed = self._edges(node).get("trainable_variables")
        if listed is None:
            return tuple(at for at in variables if self._nodes[at].variable.trainable)
        trained = {*self._graph.children[listed].values()}
        return tuple(at for at in variables if at in trained)

    def _children(self, node: int) -> Iterator[tuple[str, int]]:
        """Yield `(attribute, number)` of layers and variables; see `RecordedLayer`."""

        def edges(number: int) -> Edges:
            return {
                edge: child
                for edge, child in self._graph.children[number].items()
                if edge not in BOOKKEEPING and not edge.startswith(LAYER_WITH_WEIGHTS)
            }

        def is_leaf(number: int) -> bool:
            return number in self._graph.variables or number in self._graph.metadata

        for path, child in self._graph.walk(node, edges, is_leaf):
            if is_leaf(child):
                yield path, child

    def _traces(self, node: int) -> Iterator[Trace]:
        edges = self._edges(node)
        for edge in (CALL, CALL_WITH_LOSSES, DEFAULT_CALL):
            names = self._functions(edges.get(edge))
            for name in names:
                trace = self.trace(name)
                if edge == CALL_WITH_LOSSES and trace.outputs:
                    trace = dataclasses.replace(trace, outputs=trace.outputs[0])
                yield trace
            if names:
                return
