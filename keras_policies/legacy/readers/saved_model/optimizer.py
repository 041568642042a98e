"""The state of the optimizer in a SavedModel, or in a checkpoint by itself."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from keras_policies.legacy.base.model import LegacyOptimizerState, LegacySlot
from keras_policies.legacy.readers.checkpoint.checkpoint import Checkpoint
from keras_policies.legacy.readers.checkpoint.object_graph import ObjectGraph, Weights
from keras_policies.legacy.readers.checkpoint.protos import Message
from keras_policies.legacy.readers.saved_model.objects import SavedObjects
from keras_policies.legacy.readers.slots import SlotNames


def _scalar(graph: ObjectGraph, node: int, *edges: str) -> Any:
    """Return the scalar at the end of `edges` as a Python number, or None."""
    for edge in edges:
        if edge not in graph.children[node]:
            return None
        node = graph.children[node][edge]
    weight = graph.variables.get(node)
    return None if weight is None or weight.shape else weight.read().item()


def _slot_variables(
    checkpoint: Checkpoint, nodes: Sequence[Message], weights: Weights
) -> Iterator[LegacySlot]:
    """Yield the slots of the optimizers up to 2.10, which the file lists as such."""
    for node in nodes:
        for slot in node.slot_variables:
            variable = weights.get(slot.original_variable_node_id)
            if variable is None or not 0 <= slot.slot_variable_node_id < len(nodes):
                continue
            there, name = nodes[slot.slot_variable_node_id], slot.slot_name
            value = checkpoint.variable(there, name)
            if value is not None:
                yield LegacySlot(name, variable, value)


def _by_name(graph: ObjectGraph, node: int, weights: Weights) -> Iterator[LegacySlot]:
    """Yield the slots of the optimizers of 2.11 and on: `Adam/m/dense/kernel`."""
    listed = graph.children[node].get("_variables")
    names = SlotNames(weights.values())
    for variable in () if listed is None else graph.children[listed].values():
        value = graph.variables.get(variable)
        slot = None if value is None else names.slot(value)
        if slot is not None:
            yield slot


def read(objects: SavedObjects, weights: Weights) -> LegacyOptimizerState:
    """Return the state of the root's optimizer; `weights` are the whole model's."""
    optimizer = objects.graph.children[0].get("optimizer")
    variables = {objects.in_checkpoint[node]: item for node, item in weights.items()}
    found = objects.checkpoint, objects.checkpoint_nodes, variables
    return state(objects.graph, optimizer, tuple(_slot_variables(*found)), weights)


def of_checkpoint(
    graph: ObjectGraph, checkpoint: Checkpoint, optimizer: int | None, weights: Weights
) -> LegacyOptimizerState:
    """Return the state of an object in the graph of a checkpoint itself."""
    slots = _slot_variables(checkpoint, checkpoint.nodes(), weights)
    return state(graph, optimizer, tuple(slots), weights)


def state(
    graph: ObjectGraph,
    optimizer: int | None,
    slots: tuple[LegacySlot, ...],
    weights: Weights,
) -> LegacyOptimizerState:
    """Return the state of the optimizer that is an object of a graph, if any."""
    if optimizer is None:
        return LegacyOptimizerState()
    inner = graph.children[optimizer].get("base_optimizer", optimizer)
    places = itertools.product((inner, optimizer), ("iter", "_iterations"))
    iterations = [_scalar(graph, *place) for place in places]
    cache = _scalar(graph, inner, "momentum_cache")
    return LegacyOptimizerState(
        iterations=next((item for item in iterations if item is not None), None),
        slots=slots or tuple(_by_name(graph, optimizer, weights)),
        momenta=cache,
        loss_scale=_scalar(graph, optimizer, "loss_scale", "current_loss_scale"),
        good_steps=_scalar(graph, optimizer, "loss_scale", "good_steps"),
    )
