"""Recorded functions, in which one node stands for what took many."""

import dataclasses

from keras_policies.legacy.base.traced_functions import Function, TracedFunctions
from keras_policies.legacy.programs import ctc, dropouts


def function(traced: TracedFunctions, name: str) -> Function:
    """Return a function of a file, with its dropouts and CTC losses as a node each."""
    found = traced.functions[name]
    nodes, new = found.nodes, dict(found.nodes)
    ops = {node.op for node in nodes.values()}
    if ops.isdisjoint({"RandomUniform", ctc.LOSS}):
        return found
    for one, node in nodes.items():
        if "RandomUniform" in ops:
            new[one] = dropouts.dropout(node, nodes) or node
        if node.op == ctc.LOSS:
            new[one] = ctc.of_padded_labels(node, nodes, traced) or node
    return dataclasses.replace(found, nodes=new)
