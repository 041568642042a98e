"""Finds dropout in a traced function, so that it becomes the layer.

    Mul(x, 1 / (1 - rate)), RandomUniform >= rate, SelectV2 or Mul of both
    RealDiv(x, keep), Floor(keep + RandomUniform), Mul of both
        -> _Dropout(x), with the rate and the shape of the draws as attributes

The first is `tf.nn.dropout`, and the Dropout layer where it is called with
`training=True`; the second is stochastic depth, as it is often written.
Source: tensorflow/python/ops/nn_ops.py, `_dropout`.
"""

import math
import operator
from collections.abc import Callable, Mapping

import numpy as np

from keras_policies.legacy.base.traced_functions import (
    PASSING,
    Node,
    Output,
)
from keras_policies.legacy.guards import limits

DROPOUT = "_Dropout"
# Ops that compute a rate, or the factor that goes with it.
COMPUTES: Mapping[str, Callable[[float, float], float]] = {
    "RealDiv": lambda a, b: a / b if b else math.inf,
    "Sub": operator.sub,
}
SCALED = {"Add", "AddV2", "Mul"}  # a draw, in another range


def dropout(node: Node, nodes: Mapping[str, Node]) -> Node | None:
    """Return the dropout that ends in a node, or None."""
    inputs = [nodes.get(output.node) for output in node.inputs]
    if node.op == "SelectV2":
        mask, scaled, other = inputs
        if other is None or _constant(other, nodes) != 0:
            return None
        return _scaled(node, scaled, mask, nodes)
    if node.op != "Mul":
        return None
    for scaled, mask in (inputs, inputs[::-1]):
        if mask is not None and mask.op == "Cast":
            return _scaled(node, scaled, nodes.get(mask.inputs[0].node), nodes)
        if mask is not None and mask.op == "Floor":
            return _floored(node, scaled, nodes.get(mask.inputs[0].node), nodes)
    return None


def _scaled(
    node: Node, scaled: Node | None, mask: Node | None, nodes: Mapping[str, Node]
) -> Node | None:
    """Return a dropout that keeps `scaled` where a draw is at least the rate."""
    if mask is None or mask.op != "GreaterEqual" or scaled is None:
        return None
    rate, draw = _constant(nodes.get(mask.inputs[1].node), nodes), mask.inputs[0]
    if rate is None or not 0 <= rate < 1 or scaled.op != "Mul":
        return None
    x, factor = scaled.inputs
    scale = _constant(nodes.get(factor.node), nodes)
    if scale is None or not np.isclose(scale, 1 / (1 - rate), rtol=1e-2):
        return None
    return _dropout_node(node, x, rate, draw, nodes)


def _floored(
    node: Node, scaled: Node | None, draw: Node | None, nodes: Mapping[str, Node]
) -> Node | None:
    """Return a dropout of `x / keep * floor(keep + draw)`: stochastic depth."""
    if draw is None or draw.op not in ("Add", "AddV2"):
        return None
    if scaled is None or scaled.op != "RealDiv":
        return None
    x, divisor = scaled.inputs
    keep = _constant(nodes.get(divisor.node), nodes)
    for constant, uniform in (draw.inputs, draw.inputs[::-1]):
        added = _constant(nodes.get(constant.node), nodes)
        if added is not None and keep and np.isclose(added, keep) and 0 < keep <= 1:
            return _dropout_node(node, x, 1 - keep, uniform, nodes)
    return None


def _dropout_node(
    node: Node, x: Output, rate: float, draw: Output, nodes: Mapping[str, Node]
) -> Node | None:
    uniform = _uniform(draw, nodes)
    if uniform is None:
        return None
    shape = _noise_shape(nodes.get(uniform.inputs[0].node), nodes)
    return Node(
        node.name, DROPOUT, (x,), {"rate": round(rate, 6), "noise_shape": shape}
    )


def _constant(
    node: Node | None, nodes: Mapping[str, Node], depth: int = 0
) -> float | None:
    """Return the number that a node is, or None.

    TensorFlow 1 computes a rate from a placeholder that has a default.
    """
    if node is None or depth > limits.RATE_OPS:
        return None
    if node.op == "Const" and np.size(node.attributes["value"]) == 1:
        return float(np.reshape(node.attributes["value"], ()))
    if node.op in PASSING or node.op in COMPUTES:
        values = [_constant(nodes.get(x.node), nodes, depth + 1) for x in node.inputs]
        numbers = [number for number in values if number is not None]
        if len(numbers) == len(values) == (2 if node.op in COMPUTES else 1):
            return COMPUTES[node.op](*numbers) if node.op in COMPUTES else numbers[0]
    return None


def _uniform(output: Output, nodes: Mapping[str, Node]) -> Node | None:
    """Return the node that gives the uniform numbers in a draw, or None."""
    node = nodes.get(output.node)
    for _ in range(limits.SCALING_OPS):
        if node is not None and node.op in SCALED:
            node = nodes.get(node.inputs[0].node)
    return node if node is not None and node.op == "RandomUniform" else None


def _noise_shape(
    shape: Node | None, nodes: Mapping[str, Node]
) -> tuple[int | None, ...] | None:
    """Return 1 for each axis along which one draw decides, and None for the others."""
    sizes: list[float | None] = []
    if shape is not None and shape.op == "Const":
        sizes = [float(size) for size in np.ravel(shape.attributes["value"])]
    elif shape is not None and shape.op == "Pack":
        sizes = [_constant(nodes.get(output.node), nodes) for output in shape.inputs]
    return tuple(1 if size == 1 else None for size in sizes) if 1 in sizes else None
