"""Reads what the layers of a SavedModel did: their functions, and what these capture.

Sources: keras/saving/legacy/saved_model/{save_impl,load}.py,
tensorflow/core/protobuf/saved_object_graph.proto.
"""

import functools
from collections.abc import Callable, Container, Iterator

from keras_policies.legacy.base.model import Array, Config, LegacyWeight
from keras_policies.legacy.base.recorded import Recorded, RecordedLayer
from keras_policies.legacy.guards.limit import Limit
from keras_policies.legacy.readers.checkpoint.object_graph import (
    BOOKKEEPING,
    LAYER_WITH_WEIGHTS,
    Edges,
    Weights,
)
from keras_policies.legacy.readers.saved_model.lazy import Lazy
from keras_policies.legacy.readers.saved_model.library import Library
from keras_policies.legacy.readers.saved_model.objects import MODEL_FILE, SavedObjects
from keras_policies.legacy.readers.saved_model.traces import Traces

MAX_PATHS = 64 * 1024 * 1024
METRIC = "_tf_keras_metric"
WITHOUT_CONFIG = "layer was saved without config"
IN_METADATA = "name", "trainable", "dtype"  # also where a layer has no config


def read(objects: SavedObjects, weights: Weights) -> Recorded:
    """Return what is recorded; `weights` are those of the model, with their paths."""
    layers, traces = _Layers(objects, weights), Traces(objects)
    path, library = objects.folder / MODEL_FILE, objects.library
    return Recorded(
        layers=Lazy(path, layers.numbers, layers.layer),
        variables={**objects.graph.variables, **weights},
        constants=Lazy(path, layers.constants, _constant(library)),
        functions=library.functions,
        signatures=Lazy(path, traces.signatures, library.trace),
    )


def _constant(library: Library) -> Callable[[str], Callable[[], Array]]:
    return lambda name: functools.partial(library.constant, name)


def weights_of_signature(objects: SavedObjects) -> dict[int, LegacyWeight]:
    """Return the variables that a root without Keras metadata uses."""
    graph, traces = objects.graph, [*Traces(objects).of_signature()]
    variables = {**graph.variables, **graph.weights(0)}
    used = dict.fromkeys(number for trace in traces for number in trace.captures)
    return {number: variables[number] for number in used if number in variables}


class _Layers:
    def __init__(self, objects: SavedObjects, weights: Weights) -> None:
        self._objects = objects
        self._graph = objects.graph
        self._weights = weights
        self._traces = Traces(objects)
        self._paths = Limit(MAX_PATHS, "characters in the paths of its objects")
        self._trained: dict[int, frozenset[int]] = {}  # by the object that lists them

    def numbers(self) -> dict[int, int]:
        nodes = self._objects.nodes
        return {
            number: number
            for number in self._graph.metadata
            if 0 <= number < len(nodes)
            and nodes[number].user_object.identifier != METRIC
        }

    def constants(self) -> dict[int, str]:
        return {
            number: node.constant.operation
            for number, node in enumerate(self._objects.nodes)
            if node.HasField("constant")
        }

    def layer(self, node: int) -> RecordedLayer:
        metadata, edges = self._graph.metadata[node], self._edges(node)
        written = metadata.get("config")
        config: Config = {key: metadata[key] for key in IN_METADATA if key in metadata}
        if isinstance(written, dict) and not written.get(WITHOUT_CONFIG):
            config.update(written)
        else:
            written = None
        class_name = str(metadata.get("class_name"))
        if node == 0 and self._objects.is_signature:
            variables, traces = tuple(self._weights), self._traces.of_signature()
        else:
            variables = tuple(self._graph.weights(node))
            traces = self._traces.of_layer(edges)
        return RecordedLayer(
            class_name=class_name,
            config=config,
            has_config=written is not None,
            name=str(metadata.get("name") or class_name),
            children=dict(self._children(node, variables)),
            variables=variables,
            trainable=self._trainable(edges, variables),
            traces=tuple(traces),
            traces_with_losses=tuple(self._traces.with_losses(edges)),
            regularizers=tuple(self._traces.of_regularizers(edges)),
            activity_regularizer=self._traces.activity_regularizer(edges),
        )

    def _edges(self, node: int) -> Edges:
        """Return the edges of a layer, with those of its part `keras_api`."""
        edges = self._graph.children[node]
        api = edges.get("keras_api")
        return edges if api is None else {**self._graph.children[api], **edges}

    def _trainable(self, edges: Edges, variables: tuple[int, ...]) -> tuple[int, ...]:
        listed = edges.get("trainable_variables")
        if listed is None:
            nodes = self._objects.nodes
            return tuple(at for at in variables if nodes[at].variable.trainable)
        if listed not in self._trained:
            self._trained[listed] = frozenset(self._graph.children[listed].values())
        return tuple(at for at in variables if at in self._trained[listed])

    def _children(
        self, node: int, variables: Container[int]
    ) -> Iterator[tuple[str, int]]:
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
            if child in variables or child in self._graph.metadata:
                self._paths.spend(len(path))
                yield path, child
