"""Finds the draws of a `tf.random.Generator`, which are like those without one.

    StatelessRandomNormalV2(shape, key that comes from RngReadAndSkip, counter)
        -> RandomStandardNormal(shape)

Before TensorFlow 2.5, StatefulStandardNormalV2 takes the generator itself.
"""

import dataclasses
from collections.abc import Mapping

from keras_policies.legacy.base.traced_functions import Function, Node, Output
from keras_policies.legacy.guards import limits

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
    waiting = [seed.node]
    for _ in range(limits.SEED_OPS):
        node = nodes.get(waiting.pop(0)) if waiting else None
        if node is not None and node.op in SOURCES:
            return True
        waiting += [output.node for output in node.inputs] if node is not None else []
    return False
