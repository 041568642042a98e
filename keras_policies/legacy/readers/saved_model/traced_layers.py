"""Reads the traced functions of the layers of a SavedModel, and their captures.

Sources: keras/saving/legacy/saved_model/{save_impl,load}.py,
tensorflow/core/protobuf/saved_object_graph.proto.
"""

import dataclasses
import functools
import itertools
from collections.abc import Container, Iterator

from keras_policies._common.types import Config
from keras_policies.legacy.base.traced_functions import (
    SERVING,
    ConcreteFunction,
    TracedFunctions,
    TracedLayer,
)
from keras_policies.legacy.base.weights import LegacyWeight
from keras_policies.legacy.guards import limits
from keras_policies.legacy.guards.budget import Limit
from keras_policies.legacy.readers.checkpoint import protos
from keras_policies.legacy.readers.checkpoint.object_graph import Edges, Weights
from keras_policies.legacy.readers.saved_model.library import Lazy
from keras_policies.legacy.readers.saved_model.objects import (
    CALL,
    MODEL_FILE,
    SIGNATURES,
    SavedObjects,
    functions_of,
)
from keras_policies.legacy.readers.saved_model.tables import Tables

METRIC = "_tf_keras_metric"
WITHOUT_CONFIG = "layer was saved without config"
IN_METADATA = "name", "trainable", "dtype"  # also where a layer has no config
CALL_WITH_LOSSES = "call_and_return_conditional_losses"  # (outputs, losses)
ACTIVITY_REGULARIZER = "activity_regularizer_fn"  # of an output
DEFAULT_CALL = "_default_save_signature"  # only models have it
REGULARIZERS = "regularization_losses"


def read(objects: SavedObjects, weights: Weights) -> TracedFunctions:
    """Return the traced functions; `weights` are those of the model, with paths."""
    layers, tables = _Layers(objects, weights), Tables(objects)
    path, library = objects.folder / MODEL_FILE, objects.library
    return TracedFunctions(
        layers=Lazy(path, layers.numbers, layers.layer),
        variables={**objects.graph.variables, **weights},
        constants={
            number: functools.partial(library.constant, node.constant.operation)
            for number, node in enumerate(objects.nodes)
            if node.HasField("constant")
        },
        functions=library.functions,
        signatures=Lazy(path, layers.traces.signatures, library.trace),
        tables=Lazy(path, tables.numbers, tables.content),
        gradients=Lazy(
            path,
            library.gradients,
            functools.partial(library.gradient, objects.nodes),
        ),
    )


def weights_of_signature(objects: SavedObjects) -> dict[int, LegacyWeight]:
    """Return the variables that a root without Keras metadata uses."""
    graph, traces = objects.graph, _Traces(objects).of_signature()
    variables = {**graph.variables, **graph.weights(0)}
    used = dict.fromkeys(number for trace in traces for number in trace.captures)
    return {
        number: dataclasses.replace(variables[number], number=number)
        for number in used
        if number in variables
    }


class _Layers:
    def __init__(self, objects: SavedObjects, weights: Weights) -> None:
        self._objects = objects
        self._graph = objects.graph
        self._leaves = {*objects.graph.variables, *objects.graph.metadata}
        self._weights = weights
        self.traces = _Traces(objects)
        what = "characters in the paths of its objects"
        self._paths = Limit(limits.CHILD_PATHS, what)
        self._trained: dict[int, frozenset[int]] = {}  # by the object that lists them

    def numbers(self) -> dict[int, int]:
        nodes = self._objects.nodes
        return {
            number: number
            for number in self._graph.metadata
            if 0 <= number < len(nodes)
            and nodes[number].user_object.identifier != METRIC
        }

    def layer(self, node: int) -> TracedLayer:
        metadata, edges = self._graph.metadata[node], self._edges(node)
        written = metadata.get("config")
        has_config = isinstance(written, dict) and not written.get(WITHOUT_CONFIG)
        config: Config = {key: metadata[key] for key in IN_METADATA if key in metadata}
        config |= (written or {}) if has_config else {}
        class_name = str(metadata.get("class_name"))
        of = self.traces.under
        if node == 0 and self._objects.is_signature:
            variables, traces = tuple(self._weights), self.traces.of_signature()
        else:
            variables = tuple(self._graph.weights(node))
            kinds = (of(edges, edge) for edge in (CALL, CALL_WITH_LOSSES, DEFAULT_CALL))
            traces = next(filter(None, kinds), ())
        return TracedLayer(
            class_name=class_name,
            config=config,
            has_config=has_config,
            name=str(metadata.get("name") or class_name),
            children=dict(self._children(node, {*variables})),
            variables=variables,
            trainable=self._trainable(edges, variables),
            traces=traces,
            traces_with_losses=of(edges, CALL_WITH_LOSSES),
            regularizers=self.traces.of_regularizers(edges),
            activity_regularizer=next(iter(of(edges, ACTIVITY_REGULARIZER)), None),
            served=next(iter(of(edges, DEFAULT_CALL)), None),
        )

    def _edges(self, node: int) -> Edges:
        """Return the edges of a layer, including those of its `keras_api`."""
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
        """Yield `(attribute, number)` of layers and variables; see `TracedLayer`."""
        graph = self._graph
        for path, child in graph.walk(node, graph.attributes, self._leaves):
            if child in variables or child in graph.metadata:
                self._paths.spend(len(path))
                yield path, child


class _Traces:
    def __init__(self, objects: SavedObjects) -> None:
        self._objects = objects
        self._listed = Limit(limits.LAYER_FUNCTIONS, "functions of its layers")

    def signatures(self) -> dict[str, str]:
        """Return `{name of the signature: name of its function}`.

        A root without signatures has one for each of its own functions.
        """
        by_name = self._signatures() or self._of_root()
        return {name: functions[0] for name, functions in by_name.items()}

    def of_signature(self) -> tuple[ConcreteFunction, ...]:
        """Return the traces of a root without Keras metadata.

        They are those of its serving signature, or the first signature, or `__call__`,
        or the first function.
        """
        named, default = self._signatures(), SERVING
        if not named:
            named, default = self._of_root(), CALL
        functions = named.get(default) or next(iter(named.values()), [])
        return tuple(map(self._objects.library.trace, functions))

    def _signatures(self) -> dict[str, list[str]]:
        children = self._objects.graph.children
        listed = children[0].get(SIGNATURES)
        return {} if listed is None else self._named(children[listed])

    def _of_root(self) -> dict[str, list[str]]:
        objects = self._objects
        return self._named(functions_of(objects.nodes, objects.graph.children[0]))

    def _named(self, nodes: Edges) -> dict[str, list[str]]:
        """Return the traced functions of objects, by name."""
        named = ((name, self._functions(node)) for name, node in nodes.items())
        return {name: functions for name, functions in named if functions}

    def under(self, edges: Edges, edge: str) -> tuple[ConcreteFunction, ...]:
        """Return the traces of the function at an edge of a layer, if there is one."""
        names = self._functions(edges[edge]) if edge in edges else []
        traces = map(self._objects.library.trace, names)
        return tuple(map(_divided, traces) if edge == CALL_WITH_LOSSES else traces)

    def of_regularizers(self, edges: Edges) -> tuple[ConcreteFunction, ...]:
        """Return the functions that return the losses of a layer's weights."""
        listed = edges.get(REGULARIZERS)
        nodes = {} if listed is None else self._objects.graph.children[listed]
        names = itertools.chain(*map(self._functions, nodes.values()))
        return tuple(map(self._objects.library.trace, names))

    def _functions(self, node: int) -> list[str]:
        """Return the names of the concrete functions of an object."""
        item = self._objects.nodes[node]
        names = list(item.function.concrete_functions)
        if item.bare_concrete_function:
            bare = protos.parse("SavedBareFunction", item.bare_concrete_function)
            names = [bare.concrete_function_name]
        self._listed.spend(len(names))
        return names


def _divided(trace: ConcreteFunction) -> ConcreteFunction:
    """Split the results of a trace that returns `(outputs, losses)`."""
    if not isinstance(trace.outputs, tuple) or len(trace.outputs) != 2:
        return trace
    outputs, losses = trace.outputs
    return dataclasses.replace(trace, outputs=outputs, losses=losses)
