"""The order in which Keras builds the layers of a Functional, and what that costs."""

import graphlib
from collections.abc import Sequence
from typing import TypeAlias

from keras_policies._common.types import Config
from keras_policies.legacy.guards import budget

LayerCall: TypeAlias = tuple[str, int]  # a layer, and which of its calls


def in_build_order(layers: Sequence[Config]) -> Sequence[Config]:
    """Return layers in an order in which their first calls can be made.

    In another order, Keras may take as many rounds as there are layers.
    """
    calls = {x["name"]: [node["taken"] for node in x["inbound_nodes"]] for x in layers}
    first = {n: [other for other, _ in nodes[0]] for n, nodes in calls.items() if nodes}
    try:
        order = graphlib.TopologicalSorter(first).static_order()
        ranks = {name: rank for rank, name in enumerate(order)}
    except graphlib.CycleError:  # Keras refuses it
        return layers
    in_order = sorted(layers, key=lambda layer: ranks.get(layer["name"], 0))
    _charge({layer["name"]: calls[layer["name"]] for layer in in_order})
    return in_order


def _charge(calls: dict[str, list[list[LayerCall]]]) -> None:
    """Charge the budget for the calls that Keras tries before it can make them.

    Keras goes through all layers again and again, until a round makes no call; those of
    one layer are made in order.
    """
    made = {(name, 0) for name, nodes in calls.items() if not nodes}
    waiting = {name: 0 for name, nodes in calls.items() if nodes}  # the next call
    before = -1
    while before < len(made):
        before = len(made)
        for name, number in [*waiting.items()]:
            nodes = calls[name]
            while number < len(nodes) and made.issuperset(nodes[number]):
                made.add((name, number))
                number += 1
            waiting[name] = number
            if number < len(nodes):
                budget.work(budget.RETRY * len(nodes[number]))
            else:
                del waiting[name]
