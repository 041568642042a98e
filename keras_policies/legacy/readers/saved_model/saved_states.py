"""The states of the stateful RNNs in a SavedModel."""

from keras_policies.legacy.base.model import LegacyWeight
from keras_policies.legacy.readers.checkpoint.object_graph import ObjectGraph


def by_layer(graph: ObjectGraph) -> dict[str, tuple[LegacyWeight, ...]]:
    """Return `{layer path: states}`, in the order of the layer's cells."""
    found = {}
    for path, node in graph.walk(0, graph.inner_layers):
        keras_api = graph.children[node].get("keras_api")
        states = None if keras_api is None else graph.children[keras_api].get("states")
        if states is not None:
            held = _in_order(graph, states)
            if held:
                found[path] = held
    return found


def _in_order(graph: ObjectGraph, states: int) -> tuple[LegacyWeight, ...]:
    """Return the variables in nested lists, whose edges are positions."""
    walk = graph.walk(states, graph.children.__getitem__, graph.variables.__contains__)
    found = {
        tuple(map(int, path.split("/"))): graph.variables[node]
        for path, node in walk
        if node in graph.variables and path.replace("/", "").isdecimal()
    }
    return tuple(found[position] for position in sorted(found))
