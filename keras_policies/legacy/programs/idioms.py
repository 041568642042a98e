"""Replaces idioms of many nodes in a traced function by a node each.

Dropout, so that it becomes the layer; the second form is stochastic depth, the third
one draws from Bernoulli. Source: tensorflow/python/ops/nn_ops.py, `_dropout`.

    Mul(x, 1 / (1 - rate)), RandomUniform >= rate, SelectV2 or Mul of both
    RealDiv(x, keep), Floor(keep + RandomUniform), Mul of both
    SelectV2(1 - (RandomUniform < keep), 0, x), Mul of it and 1 / keep
        -> _Dropout(x), with the rate and the shape of the draws as attributes

Draws of a `tf.random.Generator`, which are like those without one. Before TensorFlow
2.5, StatefulStandardNormalV2 takes the generator itself.

    StatelessRandomNormalV2(shape, key that comes from RngReadAndSkip, counter)
        -> RandomStandardNormal(shape)

The CTC loss of padded labels, which needs no sparse tensor in Keras 3. Source:
keras/backend.py, `ctc_label_dense_to_sparse`.

    lists  = TensorListFromTensor(lengths)
    counts = While(..., lists, ...), whose rounds compute range < length
    at     = Where(TensorListStack(counts)), ...
    CTCLoss(logits, at, GatherNd(labels, at), times)  # Cast, unless they are int32
        -> _CTCLoss(logits, labels, lengths, times)
"""

import dataclasses
import itertools
import math
import operator
from collections.abc import Callable, Mapping

import numpy as np

from keras_policies.legacy.base import walks
from keras_policies.legacy.base.traced_functions import (
    LOOPS,
    PASSING,
    Function,
    Node,
    Output,
    TracedFunctions,
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
        if scaled is not None and scaled.op == "SelectV2":
            return _selected(node, scaled, mask, nodes)
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


def _selected(
    node: Node, chosen: Node, factor: Node | None, nodes: Mapping[str, Node]
) -> Node | None:
    """Return a dropout that puts 0 where a sample of Bernoulli is not 1."""
    mask, zero, x = chosen.inputs
    is_inverted, shape, sample = False, None, nodes.get(mask.node)
    while sample is not None and sample.op in ("Cast", "Reshape", "Sub"):
        first, *others = sample.inputs
        if sample.op == "Sub":
            if is_inverted or _constant(nodes.get(first.node), nodes) != 1:
                return None
            is_inverted, (first,) = True, others
        elif sample.op == "Reshape":
            lengths = nodes.get(others[0].node)
            is_joined = lengths is not None and lengths.op == "ConcatV2"
            shape = lengths.inputs[0] if lengths is not None and is_joined else None
        sample = nodes.get(first.node)
    if sample is None or sample.op != "Less" or not is_inverted or shape is None:
        return None
    keep = _constant(nodes.get(sample.inputs[1].node), nodes)
    scale = _constant(factor, nodes)
    if not keep or scale is None or not np.isclose(scale, 1 / keep, rtol=1e-2):
        return None
    if _constant(nodes.get(zero.node), nodes) != 0:
        return None
    return _dropout_node(node, x, 1 - keep, sample.inputs[0], nodes, shape)


def _dropout_node(
    node: Node,
    x: Output,
    rate: float,
    draw: Output,
    nodes: Mapping[str, Node],
    shape_of_draws: Output | None = None,
) -> Node | None:
    uniform = _uniform(draw, nodes)
    if uniform is None:
        return None
    shape_of_draws = shape_of_draws or uniform.inputs[0]
    shape = _noise_shape(nodes.get(shape_of_draws.node), nodes)
    attributes = {"rate": round(rate, 6), "noise_shape": shape}
    return Node(node.name, DROPOUT, (x,), attributes, shape=node.shape)


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


# Op -> the op that draws without a generator, and the inputs that it takes.
DRAWS = {
    "StatefulStandardNormalV2": ("RandomStandardNormal", (2,)),
    "StatefulTruncatedNormal": ("TruncatedNormal", (2,)),
    "StatefulUniform": ("RandomUniform", (2,)),
    "StatefulUniformInt": ("RandomUniformInt", (2, 3, 4)),
    "StatelessRandomUniformInt": ("RandomUniformInt", (0, 2, 3)),
    "StatelessRandomUniformIntV2": ("RandomUniformInt", (0, 4, 5)),
    **{
        f"Stateless{old}{ending}": (new, (0,))
        for ending in ("", "V2")
        for old, new in (
            ("RandomNormal", "RandomStandardNormal"),
            ("RandomUniform", "RandomUniform"),
            ("TruncatedNormal", "TruncatedNormal"),
        )
    },
}
# Ops whose result differs in each call: sources of seeds and keys.
SOURCES = {"RandomUniformInt", "RngReadAndSkip", "StatefulUniformFullInt"}


def without(function: Function) -> Function:
    """Return a function that draws without generators."""
    nodes = {name: replaced(n, function.nodes) for name, n in function.nodes.items()}
    return dataclasses.replace(function, nodes=nodes)


def replaced(node: Node, nodes: Mapping[str, Node]) -> Node:
    """Return a node; a draw from a generator becomes the op that needs none."""
    op, positions = DRAWS.get(node.op, ("", ()))
    is_stateful = node.op.startswith("Stateful")
    if not op or not (is_stateful or _is_random(node.inputs[1], nodes)):
        return node
    dtype = node.attributes.get("dtype", "int64" if op.endswith("Int") else "float32")
    attributes = {"dtype": dtype, "Tout": dtype}
    return Node(node.name, op, tuple(node.inputs[i] for i in positions), attributes)


def _is_random(seed: Output, nodes: Mapping[str, Node]) -> bool:
    """Return whether a seed or a key differs in each call."""
    before = itertools.islice(walks.ancestors(nodes, seed.node), limits.SEED_OPS)
    return any(node.op in SOURCES for node in before)


LOSS = "CTCLoss"
# What a round does: whether the position of a label is below the length of its row.
ROUND = {"Fill", "Less", "TensorListGetItem", "TensorListSetItem"}
AROUND = {"AddV2", "Const", "ExpandDims", "Identity", "Range", "Shape", "StridedSlice"}


def of_padded_labels(
    node: Node, nodes: Mapping[str, Node], traced: TracedFunctions
) -> Node | None:
    """Return a CTC loss that takes padded labels, or None."""
    repeats = node.attributes.get("preprocess_collapse_repeated", False)
    if (
        node.op != LOSS
        or repeats
        or not node.attributes.get("ctc_merge_repeated", True)
    ):
        return None
    logits, _, values, times = node.inputs
    gather = nodes.get(values.node)
    if gather is not None and gather.op == "Cast":
        gather = nodes.get(gather.inputs[0].node)
    if gather is None or gather.op != "GatherNd":
        return None
    labels, indices = gather.inputs
    lengths = _lengths(indices, nodes, traced)
    if lengths is None:
        return None
    return Node(node.name, f"_{LOSS}", (logits, labels, lengths, times), {})


def _lengths(
    indices: Output, nodes: Mapping[str, Node], traced: TracedFunctions
) -> Output | None:
    """Return the lengths by which a loop masks labels, or None."""
    before = [*walks.ancestors(nodes, indices.node)]
    loops = [node for node in before if node.op in LOOPS]
    ops = {node.op for node in before}
    if len(loops) != 1 or not {"TensorListStack", "Where"} <= ops:
        return None
    body = traced.functions.get(str(loops[0].attributes.get("body")))
    round_ops = set() if body is None else {node.op for node in body.nodes.values()}
    if not ROUND <= round_ops <= ROUND | AROUND:
        return None
    inputs = (nodes.get(output.node) for output in loops[0].inputs)
    lists = [n for n in inputs if n is not None and n.op == "TensorListFromTensor"]
    return lists[0].inputs[0] if len(lists) == 1 else None


def function(traced: TracedFunctions, name: str) -> Function:
    """Return a function of a file, with its dropouts and CTC losses as a node each."""
    traced_function = traced.functions[name]
    nodes, new = traced_function.nodes, dict(traced_function.nodes)
    ops = {node.op for node in nodes.values()}
    if ops.isdisjoint({"RandomUniform", LOSS}):
        return traced_function
    for key, node in nodes.items():
        if "RandomUniform" in ops:
            new[key] = dropout(node, nodes) or node
        if node.op == LOSS:
            new[key] = of_padded_labels(node, nodes, traced) or node
    return dataclasses.replace(traced_function, nodes=new)
