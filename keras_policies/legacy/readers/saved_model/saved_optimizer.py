"""The state of the optimizer in a SavedModel or a checkpoint."""

from keras_policies.legacy.base.model import LegacyOptimizerState, LegacySlot, SlotNames
from keras_policies.legacy.readers.checkpoint import object_graph


def _scalar(graph, node, edges):
    """Return the scalar at the end of `edges`, as a Python number, or None."""
    for edge in edges:
        node = graph.children[node].get(edge)
        if node is None:
            return None
    weight = graph.weight(node)
    return None if weight is None or weight.shape else weight.read().item()


def _iterations(graph, optimizers):
    for node in optimizers:
        for edge in "iter", "_iterations":
            found = _scalar(graph, node, [edge])
            if found is not None:
                return found
    return None


def _slot_variables(checkpoint, saved, by_saved_node):
    """Yield the slots of the optimizers up to 2.10, which the file lists as such.

    Args:
        checkpoint: `Checkpoint`.
        saved: the nodes of its object graph.
        by_saved_node: `{node there: LegacyWeight}` of the model.
    """
    for node in saved:
        for slot in node.slot_variables:
            variable = by_saved_node.get(slot.original_variable_node_id)
            if variable is None or not 0 <= slot.slot_variable_node_id < len(saved):
                continue
            there = saved[slot.slot_variable_node_id]
            entry = object_graph.variable_entry(checkpoint, there)
            if entry is not None:
                value = object_graph.weight(entry, "", slot.slot_name)
                yield LegacySlot(slot.slot_name, variable, value)


def _named_slots(graph, optimizer, weights):
    """Return the slots of the optimizers of 2.11 and on: `Adam/m/dense/kernel`."""
    listed = graph.children[optimizer].get("_variables")
    stored = graph.children[listed].values() if listed is not None else ()
    names = SlotNames(weights)
    slots = (names.slot(graph.weight(node)) for node in stored if graph.weight(node))
    return tuple(slot for slot in slots if slot is not None)


def read(graph, checkpoint, saved, saved_node, weights):
    """Return the `LegacyOptimizerState` of the root's optimizer.

    Args:
        graph: `ObjectGraph`.
        checkpoint: `Checkpoint`.
        saved: the nodes of the checkpoint's own object graph.
        saved_node: `{node of graph: node there}`.
        weights: `{node of graph: LegacyWeight}` of the whole model.
    """
    optimizer = graph.children[0].get("optimizer")
    if optimizer is None:
        return LegacyOptimizerState()
    inner = graph.children[optimizer].get("base_optimizer", optimizer)
    by_saved_node = {saved_node[node]: weight for node, weight in weights.items()}
    slots = tuple(_slot_variables(checkpoint, saved, by_saved_node))
    cache = _scalar(graph, inner, ["momentum_cache"])
    return LegacyOptimizerState(
        iterations=_iterations(graph, (inner, optimizer)),
        slots=slots or _named_slots(graph, optimizer, weights.values()),
        scalars={} if cache is None else {"momentum_cache": cache},
        loss_scale=_scalar(graph, optimizer, ["loss_scale", "current_loss_scale"]),
        good_steps=_scalar(graph, optimizer, ["loss_scale", "good_steps"]),
    )
