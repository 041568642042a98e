"""Finds dropout in a recorded function, so that it becomes the layer.

    Mul(x, 1 / (1 - rate)), RandomUniform >= rate, SelectV2 or Mul of both
        -> _Dropout(x), with the rate as an attribute

That is `tf.nn.dropout`, and the Dropout layer where it is called with `training=True`.
Source: tensorflow/python/ops/nn_ops.py, `_dropout`.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from keras_policies.legacy.base.recorded import Function, Node, Output, Recorded

DROPOUT = "_Dropout"
SCALED = {"Add", "AddV2", "Mul"}  # a draw, in another range
MAX_SCALED = 2  # ops between the two: it is multiplied, and something is added


def function(recorded: Recorded, name: str) -> Function:
    """Return a function of a file, with its dropouts as one node each."""
    found = recorded.functions[name]
    nodes = found.nodes
    if not any(node.op == "RandomUniform" for node in nodes.values()):
        return found
    new = {name: _dropout(node, nodes) or node for name, node in nodes.items()}
    return dataclasses.replace(found, nodes=new)


def _dropout(node: Node, nodes: Mapping[str, Node]) -> Node | None:
    """Return the dropout that ends in a node, or None."""
    made = [nodes.get(taken.node) for taken in node.inputs]
    if node.op == "SelectV2":
        kept, scaled, other = made
        if other is None or _constant(other) != 0:
            return None
    elif node.op == "Mul":
        scaled, kept = made
        if kept is None or kept.op != "Cast":
            return None
        kept = nodes.get(kept.inputs[0].node)
    else:
        return None
    if kept is None or kept.op != "GreaterEqual" or scaled is None:
        return None
    rate = _constant(nodes.get(kept.inputs[1].node))
    if rate is None or not 0 <= rate < 1 or not _is_draw(kept.inputs[0], nodes):
        return None
    if scaled.op != "Mul":
        return None
    x, factor = scaled.inputs
    scale = _constant(nodes.get(factor.node))
    if scale is None or not np.isclose(scale, 1 / (1 - rate), rtol=1e-2):
        return None
    return Node(node.name, DROPOUT, (x,), {"rate": round(rate, 6)})


def _constant(node: Node | None) -> float | None:
    """Return the number that a node is, or None."""
    if node is None or node.op != "Const" or np.size(node.attributes["value"]) != 1:
        return None
    return float(np.reshape(node.attributes["value"], ()))


def _is_draw(output: Output, nodes: Mapping[str, Node]) -> bool:
    """Return whether a node gives uniform numbers."""
    node = nodes.get(output.node)
    for _ in range(MAX_SCALED):
        if node is not None and node.op in SCALED:
            node = nodes.get(node.inputs[0].node)
    return node is not None and node.op == "RandomUniform"
