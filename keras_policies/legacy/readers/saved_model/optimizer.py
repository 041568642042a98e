"""The state of the optimizer in a SavedModel."""

import itertools
from collections.abc import Iterator
from typing import Any

from keras_policies.legacy.base.model import LegacyOptimizerState, LegacySlot
from keras_policies.legacy.readers.checkpoint.object_graph import ObjectGraph, Weights
from keras_policies.legacy.readers.saved_model.objects import SavedObjects
from keras_policies.legacy.readers.slot_names import SlotNames


def _scalar(graph: ObjectGraph, node: int, *edges: str) -> Any:
    """Return the scalar at the end of `edges` as a Python number, or None."""
    for edge in edges:
        if edge not in graph.children[node]:
            return None
        node = graph.children[node][edge]
    weight = graph.variables.get(node)
    return None if weight is None or weight.shape else weight.read().item()


def _slot_variables(objects: SavedObjects, weights: Weights) -> Iterator[LegacySlot]:
    """Yield the slots of the optimizers up to 2.10, which the file lists as such."""
    nodes = objects.checkpoint_nodes
    variables = {objects.in_checkpoint[node]: item for node, item in weights.items()}
    for node in nodes:
        for slot in node.slot_variables:
            variable = variables.get(slot.original_variable_node_id)
            if variable is None or not 0 <= slot.slot_variable_node_id < len(nodes):
                continue
            there, name = nodes[slot.slot_variable_node_id], slot.slot_name
            value = objects.checkpoint.variable(there, name)
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
    graph = objects.graph
    optimizer = graph.children[0].get("optimizer")
    if optimizer is None:
        return LegacyOptimizerState()
    inner = graph.children[optimizer].get("base_optimizer", optimizer)
    places = itertools.product((inner, optimizer), ("iter", "_iterations"))
    iterations = [_scalar(graph, *place) for place in places]
    slots = tuple(_slot_variables(objects, weights))
    cache = _scalar(graph, inner, "momentum_cache")
    return LegacyOptimizerState(
        iterations=next((item for item in iterations if item is not None), None),
        slots=slots or tuple(_by_name(graph, optimizer, weights)),
        momenta=cache,
        loss_scale=_scalar(graph, optimizer, "loss_scale", "current_loss_scale"),
        good_steps=_scalar(graph, optimizer, "loss_scale", "good_steps"),
    )
