"""Reads SavedModel folders of tf.keras 2.0 to 2.15, and the optimizers in them.

Source: keras/saving/legacy/saved_model/load.py.
"""

import contextlib
import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from keras_policies._common.types import Config
from keras_policies.legacy.base import configs
from keras_policies.legacy.base.configs import policy_name
from keras_policies.legacy.base.errors import located
from keras_policies.legacy.base.model import (
    Inputs,
    LegacyModel,
    LegacyOptimizerState,
    LegacySlot,
)
from keras_policies.legacy.base.traced_functions import SERVING
from keras_policies.legacy.base.weights import LegacyWeight
from keras_policies.legacy.readers import vocabularies
from keras_policies.legacy.readers.checkpoint.checkpoint import Checkpoint
from keras_policies.legacy.readers.checkpoint.object_graph import ObjectGraph, Weights
from keras_policies.legacy.readers.checkpoint.protos import Message
from keras_policies.legacy.readers.saved_model import functions, objects, traced_layers
from keras_policies.legacy.readers.saved_model.tables import tokens_by_layer
from keras_policies.legacy.readers.slots import SlotNames

# Releases that wrote the dtypes of variables instead of policies.
WITHOUT_POLICIES = "1.", "2.0."


def _inputs(meta_graph: Message) -> Inputs:
    """Return `{name: (shape, dtype)}` of the serving signature."""
    for named in meta_graph.signature_def:
        if named.key == SERVING:
            specs = functions.specs(named.value.inputs).values()
            return {spec.name: (spec.shape or (), spec.dtype) for spec in specs}
    return {}


@contextlib.contextmanager
def read(path: pathlib.Path) -> Iterator[LegacyModel]:
    """Yield the `LegacyModel` in the SavedModel folder at `path`."""
    with located(path / objects.MODEL_FILE):
        meta_graph = objects.meta_graph_of(path)
    if meta_graph.object_graph_def.nodes:
        yield _of_objects(path, meta_graph)
        return
    # Imported here: few files are that old.
    from keras_policies.legacy.readers.saved_model.tensorflow_1 import tensorflow_1

    yield tensorflow_1.read(path, meta_graph, _inputs(meta_graph))


def _of_objects(path: pathlib.Path, meta_graph: Message) -> LegacyModel:
    opened = objects.open_folder(path, meta_graph)
    graph, root = opened.graph, opened.graph.metadata[0]
    layers = graph.layers(0) if graph.is_graph(0) else {"": 0}
    by_layer = {name: graph.weights(node) for name, node in layers.items()}
    if "" not in layers:
        by_layer[""] = {**graph.own_weights(0)}
    if opened.is_signature:
        by_layer = {"": traced_layers.weights_of_signature(opened)}
    by_node: dict[int, LegacyWeight] = {}
    for variables in by_layer.values():  # a shared variable belongs to its first layer
        by_node |= {node: w for node, w in variables.items() if node not in by_node}
    config = root.get("config")
    if isinstance(config, dict) and config.get(traced_layers.WITHOUT_CONFIG):
        config = None
    config = {"class_name": root.get("class_name"), "config": config}
    config = _with_metadata(graph, 0, config)
    learned, weights = vocabularies.take(
        config,
        {name: tuple(variables.values()) for name, variables in by_layer.items()},
        tokens_by_layer(opened),
    )
    walk = graph.walk(0, graph.inner_layers)
    dtypes = ((at, graph.metadata.get(node, {}).get("dtype")) for at, node in walk)
    inner = {at: dtype for at, dtype in dtypes if policy_name(dtype) is not None}
    version = opened.meta_graph.meta_info_def.tensorflow_version
    there = {opened.in_checkpoint[node]: item for node, item in by_node.items()}
    slots = slot_variables(opened.checkpoint, opened.checkpoint_nodes, there)
    optimizer = graph.children[0].get("optimizer")
    return LegacyModel(
        path=str(path),
        format="SavedModel",
        written_by=f"TensorFlow {version}",
        config=config,
        policy=root.get("dtype"),
        records_policies=not version.startswith(WITHOUT_POLICIES),
        weights=weights,
        inputs=_inputs(opened.meta_graph),
        training_config=root.get("training_config"),
        optimizer=optimizer_state(graph, optimizer, by_node, slots),
        vocabularies=learned,
        inner_policies=inner,
        states=_states(graph),
        traced=traced_layers.read(opened, by_node),
    )


def _with_metadata(graph: ObjectGraph, node: int, config: Config) -> Config:
    """Return a config in which all layers have names, and models record `trainable`.

    The metadata has both. The config of a custom class may have no name, and up to
    2.10, that of a model has no `trainable`.
    """
    if not isinstance(config.get("config"), dict) or not configs.is_graph(config):
        return config
    objects, layers = graph.layers(node), []
    names = [
        name
        for name, each in objects.items()
        if graph.metadata[each].get("class_name") != "InputLayer"  # 2.0 lists it
    ]
    config = configs.with_listed_names(config, names)
    for layer in config["config"]["layers"]:
        inner = objects.get(configs.name_of(layer)) if isinstance(layer, dict) else None
        layers.append(layer if inner is None else _with_metadata(graph, inner, layer))
    trains = graph.metadata[node].get("trainable", True)
    own = {"trainable": trains, **config["config"], "layers": layers}
    return {**config, "config": own}


def _scalar(graph: ObjectGraph, node: int, *edges: str) -> Any:
    """Return the scalar at the end of `edges` as a Python number, or None."""
    for edge in edges:
        if edge not in graph.children[node]:
            return None
        node = graph.children[node][edge]
    weight = graph.variables.get(node)
    return None if weight is None or weight.shape else weight.read().item()


def slot_variables(
    checkpoint: Checkpoint, nodes: Sequence[Message], weights: Weights
) -> Iterator[LegacySlot]:
    """Yield the slots of optimizers up to 2.10, which a checkpoint lists as such.

    `nodes` are the objects of the checkpoint, `weights` the model's variables in it.
    """
    variable_at = functools.cache(lambda number: checkpoint.variable(nodes[number]))
    for node in nodes:
        for slot in node.slot_variables:
            variable = weights.get(slot.original_variable_node_id)
            if variable is None or not 0 <= slot.slot_variable_node_id < len(nodes):
                continue
            value = variable_at(slot.slot_variable_node_id)
            if value is not None:
                name = slot.slot_name
                named = dataclasses.replace(value, name=name.removesuffix(":0"))
                yield LegacySlot(name, variable, named)


def _slots_by_name(
    graph: ObjectGraph, node: int, weights: Weights
) -> Iterator[LegacySlot]:
    """Yield the slots of optimizers from 2.11 on, such as `Adam/m/dense/kernel`."""
    listed = graph.children[node].get("_variables")
    names = SlotNames(weights.values())
    for variable in () if listed is None else graph.children[listed].values():
        value = graph.variables.get(variable)
        if value is not None and (slot := names.slot(value)) is not None:
            yield slot


def optimizer_state(
    graph: ObjectGraph,
    optimizer: int | None,
    weights: Weights,
    slots: Iterable[LegacySlot],
) -> LegacyOptimizerState:
    """Return the state of an optimizer, which is an object of a graph, if any.

    `weights` are those of the whole model, `slots` are found by `slot_variables`.
    """
    if optimizer is None:
        return LegacyOptimizerState()
    inner = graph.children[optimizer].get("base_optimizer", optimizer)
    places = itertools.product((inner, optimizer), ("iter", "_iterations"))
    iterations = [_scalar(graph, *place) for place in places]
    momenta = [_scalar(graph, inner, key) for key in ("momentum_cache", "_u_product")]
    return LegacyOptimizerState(
        iterations=next((item for item in iterations if item is not None), None),
        slots=tuple(slots) or tuple(_slots_by_name(graph, optimizer, weights)),
        momenta=next((item for item in momenta if item is not None), None),
        loss_scale=_scalar(graph, optimizer, "loss_scale", "current_loss_scale"),
        good_steps=_scalar(graph, optimizer, "loss_scale", "good_steps"),
    )


def _states(graph: ObjectGraph) -> dict[str, tuple[LegacyWeight, ...]]:
    """Return `{layer path: states}`, in the order of the layer's cells."""
    by_layer = {}
    for path, node in graph.walk(0, graph.inner_layers):
        keras_api = graph.children[node].get("keras_api")
        states = None if keras_api is None else graph.children[keras_api].get("states")
        if states is not None and (in_order := _in_order(graph, states)):
            by_layer[path] = in_order
    return by_layer


def _in_order(graph: ObjectGraph, states: int) -> tuple[LegacyWeight, ...]:
    """Return the variables in nested lists; edges are positions."""
    walk = graph.walk(states, graph.children.__getitem__, graph.variables)
    by_position = {
        tuple(map(int, path.split("/"))): graph.variables[node]
        for path, node in walk
        if node in graph.variables and path.replace("/", "").isdecimal()
    }
    return tuple(by_position[position] for position in sorted(by_position))
