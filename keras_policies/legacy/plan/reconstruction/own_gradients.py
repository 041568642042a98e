"""Keeps gradients that a function recorded, where Keras can have them.

A function with `tf.custom_gradient` ends in IdentityN(f, x). A SavedModel of TensorFlow
2.6 or later records what its gradient was. If that is the gradient of the result times
a function of other tensors, `dy * h` by elements, the node becomes

    stop_gradient(f) + (x - stop_gradient(x)) * stop_gradient(h)

which has the value of f and this gradient. `tf.nn.swish` has that of its formula.
"""

from collections.abc import Mapping

import numpy as np

from keras_policies.legacy.base import walks
from keras_policies.legacy.base.errors import UNEXPECTED, attempt
from keras_policies.legacy.base.traced_functions import (
    CALLS,
    PASSING,
    ConcreteFunction,
    Function,
    Gradient,
    Node,
    Output,
    TracedFunctions,
)
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import limits
from keras_policies.legacy.plan.reconstruction import idioms
from keras_policies.legacy.plan.reconstruction.proofs import Prober, is_close

SEED, EXAMPLES = 0, 16


def is_own(node: Node, nodes: Mapping[str, Node], traced: TracedFunctions) -> bool:
    """Return whether a node has another gradient than its formula.

    Calls of functions are marked, too. So is dropout, whose gradient is as usual.
    """
    if not node.gradient or node.op in CALLS or not node.inputs:
        return False
    result = nodes.get(node.inputs[0].node)
    if result is not None and result.op == idioms.DROPOUT:
        return False
    return not (idioms.is_swish(node, nodes) and _is_of_swish(node, nodes, traced))


def _is_of_swish(
    node: Node, nodes: Mapping[str, Node], traced: TracedFunctions
) -> bool:
    """Return whether the gradient is that of swish; without a record, it counts so."""
    gradient = traced.gradients.get(node.gradient)
    if gradient is None:
        return True
    prober, random = Prober(traced), np.random.default_rng(SEED)
    x, dy = (prober.opened(random.standard_normal(EXAMPLES)) for _ in range(2))
    values: list[Array] = [dy, *(np.zeros(EXAMPLES) for _ in node.inputs[1:])]
    with attempt(*UNEXPECTED):
        for capture in gradient.captures:
            constant = nodes.get(capture.node)
            is_constant = constant is not None and constant.op == "Const"
            value = constant.attributes["value"] if constant and is_constant else x
            if not is_constant and capture.node != node.inputs[1].node:
                return False
            values.append(value)
        function = ConcreteFunction(gradient.function, (), (), ())
        (found,) = prober.run(function, values, 1)
        gate = 1 / (1 + np.exp(-x))
        return is_close(found, dy * (gate + x * gate * (1 - gate)))
    return False


def factor_of(node: Node, traced: TracedFunctions) -> Gradient | None:
    """Return the gradient of a node that computes `h` of ones and captures, or None."""
    gradient = traced.gradients.get(node.gradient)
    if gradient is None or node.op != "IdentityN" or len(node.inputs) != 2:
        return None
    function = traced.functions.get(gradient.function)
    is_product = function is not None and _is_product(function, gradient)
    return gradient if is_product else None


def _is_product(function: Function, gradient: Gradient) -> bool:
    """Return whether a gradient is that of the result times something else."""
    count = len(function.arguments) - len(gradient.captures)
    if count != 2 or len(function.outputs) != 1:
        return False
    return _is_multiple(function, function.outputs[0], limits.GRADIENT_OPS)


def _is_multiple(function: Function, output: Output, depth: int) -> bool:
    """Return whether a tensor is a multiple of the first argument, by elements."""
    if output.node == function.arguments[0]:
        return True
    node = function.nodes.get(output.node)
    if node is None or depth == 0:
        return False
    ours = [_depends(function, x) for x in node.inputs]
    if node.op in PASSING or node.op == "Neg":
        return len(ours) == 1 and _is_multiple(function, node.inputs[0], depth - 1)
    if node.op == "Mul" and sum(ours) == 1:
        return _is_multiple(function, node.inputs[ours.index(True)], depth - 1)
    if node.op in ("Div", "RealDiv") and ours == [True, False]:
        return _is_multiple(function, node.inputs[0], depth - 1)
    if node.op in ("Select", "SelectV2") and not ours[0]:
        return all(
            _is_zero(function, x) or _is_multiple(function, x, depth - 1)
            for x in node.inputs[1:]
        )
    return False


def _is_zero(function: Function, output: Output) -> bool:
    node = function.nodes.get(output.node)
    if node is None:
        return False
    if node.op == "Fill":
        return _is_zero(function, node.inputs[1])
    is_zero = node.op == "Const" and not np.any(node.attributes["value"])
    return is_zero or node.op == "ZerosLike"


def _depends(function: Function, output: Output) -> bool:
    """Return whether a tensor depends on the gradient of the result."""
    first = function.arguments[0]
    if output.node == first:
        return True
    before = walks.ancestors(function.nodes, output.node)
    return any(x.node == first for node in before for x in node.inputs)
