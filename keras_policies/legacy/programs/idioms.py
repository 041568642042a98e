"""Replaces idioms of many nodes in a traced function by a node each."""

import dataclasses

from keras_policies.legacy.base.traced_functions import Function, TracedFunctions
from keras_policies.legacy.programs import ctc, dropouts


def function(traced: TracedFunctions, name: str) -> Function:
    """Return a function of a file, with its dropouts and CTC losses as a node each."""
    traced_function = traced.functions[name]
    nodes, new = traced_function.nodes, dict(traced_function.nodes)
    ops = {node.op for node in nodes.values()}
    if ops.isdisjoint({"RandomUniform", ctc.LOSS}):
        return traced_function
    for key, node in nodes.items():
        if "RandomUniform" in ops:
            new[key] = dropouts.dropout(node, nodes) or node
        if node.op == ctc.LOSS:
            new[key] = ctc.of_padded_labels(node, nodes, traced) or node
    return dataclasses.replace(traced_function, nodes=new)
