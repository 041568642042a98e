"""The order in which Keras builds the layers of a Functional, and what that costs."""

import contextlib
import graphlib
from collections.abc import Sequence
from typing import TypeAlias

from keras_policies._common.types import Config
from keras_policies.legacy.guards import budget

LayerCall: TypeAlias = tuple[str, int]  # a layer, and which of its calls


def in_build_order(layers: Sequence[Config]) -> Sequence[Config]:
    """Return layers in an order in which their first calls can be made.

    Keras tries to make all calls in the order of the layers, and tries again until all
    are made. In another order, that takes as many rounds as there are layers.
    """
    calls = {
        layer["name"]: [call["taken"] for call in layer["inbound_nodes"]]
        for layer in layers
    }
    first = {
        name: [other for other, _ in nodes[0]] for name, nodes in calls.items() if nodes
    }
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

    Keras goes through all layers again and again, until each call is made; those of one
    layer are made in order. A call is made in the round in which the last call that it
    takes is made, or one round later if the layer of that call comes after its own.
    """
    # A layer without calls, such as an input, is there before the first round.
    positions = {name: rank if calls[name] else -1 for rank, name in enumerate(calls)}
    taken: dict[LayerCall, list[LayerCall]] = {}
    for name, nodes in calls.items():
        for number, node in enumerate(nodes or [[]]):
            taken[name, number] = [*node, (name, number - 1)] if number else node
    sorter = graphlib.TopologicalSorter(taken)
    with contextlib.suppress(graphlib.CycleError):  # calls in a cycle are never made
        sorter.prepare()
    rounds: dict[LayerCall, int] = {}
    while ready := [call for call in sorter.get_ready() if call in taken]:
        for call in ready:
            rank = positions[call[0]]
            earliest = (
                rounds[other] + (positions[other[0]] > rank) for other in taken[call]
            )
            rounds[call] = max(earliest, default=0)
        sorter.done(*ready)
    end = max(rounds.values(), default=0) + 2  # after the round that makes no call
    for name, nodes in calls.items():
        start = 0
        for number, node in enumerate(nodes):
            tries = rounds.get((name, number), end) - start
            budget.work(budget.RETRY * len(node) * tries)
            start += tries
