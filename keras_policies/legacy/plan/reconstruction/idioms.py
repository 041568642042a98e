"""Replaces each idiom of many nodes in a traced function by one node.

Dropout, so that it becomes the layer. The second form is stochastic depth; the third
draws from a Bernoulli distribution. Source: tensorflow/python/ops/nn_ops.py,
`_dropout`.

    Mul(x, 1 / (1 - rate)), RandomUniform >= rate, SelectV2 or Mul of both
    RealDiv(x, keep), Floor(keep + RandomUniform), Mul of both
    SelectV2(1 - (RandomUniform < keep), 0, x), Mul of it and 1 / keep
        -> _Dropout(x), with the rate and the shape of the draws as attributes

Draws from a `tf.random.Generator`, which become draws without a generator. Before
TensorFlow 2.5, StatefulStandardNormalV2 takes the generator itself.

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
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from keras_policies.legacy.base import patterns, walks
from keras_policies.legacy.base.traced_functions import (
    LOOPS,
    PASSING,
    Function,
    Node,
    Output,
    TracedFunctions,
)
from keras_policies.legacy.guards import budget, limits

DROPOUT = "_Dropout"
FUSED = "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"
# Ops that compute a rate, or the scale 1 / (1 - rate).
COMPUTES: Mapping[str, Callable[[float, float], float]] = {
    "RealDiv": lambda a, b: a / b if b else math.inf,
    "Sub": operator.sub,
}
# Ops that move a draw to another range -> the operand with which they do not.
SCALED = {"Add": 0, "AddV2": 0, "Mul": 1}
ROUNDING = {"bfloat16": 2**-6, "float16": 2**-9}  # of a few operations, relative


DROPOUTS = (
    ("SelectV2", ("GreaterEqual", "draw", "rate"), ("Mul", "x", "scale"), "zero"),
    ("Mul", ("Mul", "x", "scale"), ("Cast", ("GreaterEqual", "draw", "rate"))),
    ("Mul", ("RealDiv", "x", "keep"), ("Floor", ("Add", "same", "draw"))),
    ("Mul", ("SelectV2", "sample", "zero", "x"), "scale"),
)
SAMPLES = (  # of Bernoulli
    ("Less", "draw", "keep"),
    ("Cast", "sample"),
    ("Sub", "one", "sample"),
    ("Reshape", "sample", ("ConcatV2", "shape")),
)


def dropout(node: Node, nodes: Mapping[str, Node]) -> Node | None:
    """Return the dropout that ends in a node, or None."""
    for pattern in DROPOUTS:
        for match in _matches(pattern, Output(node.name), nodes):
            found = _with_sample(match, nodes) if "sample" in match else match
            uniform, rate = _uniform(found.get("draw"), nodes), _rate(found, nodes)
            if uniform is not None and rate is not None:
                shape = nodes.get(found.get("shape", uniform.inputs[0]).node)
                attributes = {"rate": rate, "noise_shape": _noise_shape(shape, nodes)}
                x = (found["x"],)
                return Node(node.name, DROPOUT, x, attributes, shape=node.shape)
    return None


def _matches(
    pattern: patterns.Pattern, output: Output, nodes: Mapping[str, Node]
) -> Iterator[dict[str, Output]]:
    def made_by(output: Output) -> tuple[str, Sequence[Output]] | None:
        node = nodes.get(output.node)
        return None if node is None else (node.op, node.inputs)

    return patterns.matches(pattern, output, made_by)


def _with_sample(
    match: dict[str, Output], nodes: Mapping[str, Node]
) -> dict[str, Output]:
    """Return a match with the parts of its sample; {} if it is not 1 minus a draw."""
    found = {**match}
    while "sample" in found:
        sample = found.pop("sample")
        parts = [part for each in SAMPLES for part in _matches(each, sample, nodes)]
        if not parts or parts[0].keys() & found.keys():
            return {}
        found |= parts[0]
    return found if {"one", "shape"} <= found.keys() else {}


def _rate(found: Mapping[str, Output], nodes: Mapping[str, Node]) -> float | None:
    """Return the rate of a dropout, or None if its constants are inconsistent."""
    names = {"rate", "keep", "same", "scale", "zero", "one"} & found.keys()
    constants = {name: _constant(nodes.get(found[name].node), nodes) for name in names}
    numbers = {name: n for name, n in constants.items() if n is not None}
    keep = numbers.get("keep", 1 - numbers.get("rate", 1))
    if len(numbers) < len(names) or not 0 < keep <= 1:
        return None
    rounding = max(_rounding(found[name], nodes) for name in names)
    is_scaled = np.isclose(numbers.get("scale", 1 / keep), 1 / keep, rounding, 0)
    is_same = np.isclose(numbers.get("same", keep), keep, rounding, 0)
    are_0_and_1 = (numbers.get("zero", 0), numbers.get("one", 1)) == (0, 1)
    if not (is_scaled and is_same and are_0_and_1):
        return None
    # The shortest decimals, as the program had them: float32 has 1 - 0.9 otherwise.
    rate = numbers.get("rate", 1 - float(str(np.float32(keep))))
    return float(str(np.float32(rate)))


def _rounding(output: Output, nodes: Mapping[str, Node]) -> float:
    """Return how far two constants may be apart that are equal but for rounding."""
    before = itertools.islice(walks.ancestors(nodes, output.node), limits.RATE_OPS)
    constants = (node.attributes["value"] for node in before if node.op == "Const")
    return max((ROUNDING.get(n.dtype.name, 1e-6) for n in constants), default=1e-6)


def _constant(
    node: Node | None, nodes: Mapping[str, Node], depth: int = 0
) -> float | None:
    """Return the constant value of a node (a placeholder's default), or None."""
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


def _uniform(draw: Output | None, nodes: Mapping[str, Node]) -> Node | None:
    """Return the node that draws the numbers between 0 and 1, or None."""
    node = None if draw is None else nodes.get(draw.node)
    for _ in range(limits.SCALING_OPS):
        if node is not None and node.op in SCALED:
            x, operand = node.inputs
            if _constant(nodes.get(operand.node), nodes) != SCALED[node.op]:
                return None
            node = nodes.get(x.node)
    return node if node is not None and node.op == "RandomUniform" else None


def _noise_shape(
    shape: Node | None, nodes: Mapping[str, Node]
) -> tuple[int | None, ...] | None:
    """Return 1 for each axis that shares one draw, and None for the others."""
    sizes: list[float | None] = []
    if shape is not None and shape.op == "Const":
        sizes = [float(size) for size in np.ravel(shape.attributes["value"])]
    elif shape is not None and shape.op == "Pack":
        sizes = [_constant(nodes.get(output.node), nodes) for output in shape.inputs]
    return tuple(1 if size == 1 else None for size in sizes) if 1 in sizes else None


SWISHES = (
    ("Mul", "x", ("Sigmoid", "same")),
    ("Mul", "x", ("Sigmoid", ("Mul", "beta", "same"))),
)


def is_swish(node: Node, nodes: Mapping[str, Node]) -> bool:
    """Return whether a node is `IdentityN(x * sigmoid(beta * x), x)`, `tf.nn.swish`.

    Source: tensorflow/python/ops/nn_impl.py, `swish`.
    """
    x = node.inputs[1] if len(node.inputs) > 1 else None
    for pattern in SWISHES:
        for match in _matches(pattern, node.inputs[0], nodes):
            beta = match.get("beta")
            is_fixed = (
                beta is None or _constant(nodes.get(beta.node), nodes) is not None
            )
            if is_fixed and match["x"] == match["same"] == x:
                return True
    return False


# Op -> the op that draws without a generator, and the positions of its inputs.
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
# Sources of seeds and keys: ops whose result differs in each call.
SOURCES = {"RandomUniformInt", "RngReadAndSkip", "StatefulUniformFullInt"}


def without(function: Function) -> Function:
    """Return a function in which draws use no generators."""
    nodes = {name: replaced(n, function.nodes) for name, n in function.nodes.items()}
    return dataclasses.replace(function, nodes=nodes)


def replaced(node: Node, nodes: Mapping[str, Node]) -> Node:
    """Return a node; a draw from a generator becomes the op without a generator."""
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
CTC = (
    (LOSS, "logits", "at", ("GatherNd", "labels", "indices"), "times"),
    (LOSS, "logits", "at", ("Cast", ("GatherNd", "labels", "indices")), "times"),
)
# Ops of a round, which tests whether the position of a label is below its row's length.
ROUND = {"Fill", "Less", "TensorListGetItem", "TensorListSetItem"}
AROUND = {"AddV2", "Const", "ExpandDims", "Identity", "Range", "Shape", "StridedSlice"}


def padded_ctc_loss(
    node: Node, nodes: Mapping[str, Node], traced: TracedFunctions
) -> Node | None:
    """Return a CTC loss that takes padded labels, or None."""
    merges = node.attributes.get("ctc_merge_repeated", True)
    if not merges or node.attributes.get("preprocess_collapse_repeated", False):
        return None
    ctc = (match for each in CTC for match in _matches(each, Output(node.name), nodes))
    found = next(ctc, None)
    lengths = None if found is None else _lengths(found["indices"], nodes, traced)
    if found is None or lengths is None:
        return None
    inputs = found["logits"], found["labels"], lengths, found["times"]
    return Node(node.name, f"_{LOSS}", inputs, {})


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


def _without_statistics(node: Node, nodes: Mapping[str, Node]) -> Node:
    """Return a FusedBatchNorm that takes the statistics from before earlier calls.

    In training, its result does not depend on the moving statistics.
    """
    if not node.attributes.get("is_training", True):
        return node
    reads = (read_before(output, nodes) for output in node.inputs[3:])
    return dataclasses.replace(node, inputs=(*node.inputs[:3], *reads))


def read_before(output: Output, nodes: Mapping[str, Node]) -> Output:
    """Return the read of a variable before the assignments that an output follows."""
    node = nodes.get(output.node)
    while node is not None and node.op in ("Identity", "_Assigned") and node.inputs:
        budget.work(budget.ITEM)  # a corrupt node may take itself
        output = node.inputs[0]
        node = nodes.get(output.node)
    return output


def function(traced: TracedFunctions, name: str) -> Function:
    """Return a function with each dropout and each CTC loss as one node."""
    traced_function = traced.functions[name]
    nodes, new = traced_function.nodes, dict(traced_function.nodes)
    ops = {node.op for node in nodes.values()}
    if ops.isdisjoint({"RandomUniform", LOSS, "_Assigned"}):
        return traced_function
    for key, node in nodes.items():
        if node.op in FUSED and "_Assigned" in ops:
            new[key] = _without_statistics(node, nodes)
        if "RandomUniform" in ops:
            new[key] = dropout(node, nodes) or node
        if node.op == LOSS:
            new[key] = padded_ctc_loss(node, nodes, traced) or node
    return dataclasses.replace(traced_function, nodes=new)
