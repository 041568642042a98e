"""Finds the CTC loss of padded labels, which needs no sparse tensor in Keras 3.

`keras.backend.ctc_batch_cost` masks the labels by their lengths, row by row in a loop,
and gathers those that count:

    lists  = TensorListFromTensor(lengths)
    counts = While(..., lists, ...), whose rounds compute range < length
    at     = Where(TensorListStack(counts)), ...
    CTCLoss(logits, at, GatherNd(labels, at), times)
        -> _CTCLoss(logits, labels, lengths, times)

Source: keras/backend.py, `ctc_label_dense_to_sparse`.
"""

from collections.abc import Mapping

from keras_policies.legacy.base.traced_functions import (
    LOOPS,
    Node,
    Output,
    TracedFunctions,
)

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
    before = _before(indices, nodes)
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


def _before(output: Output, nodes: Mapping[str, Node]) -> list[Node]:
    """Return the nodes that a tensor is computed from."""
    waiting, ancestors = [output.node], dict[str, Node]()
    while waiting:
        name = waiting.pop()
        if name in nodes and name not in ancestors:
            ancestors[name] = nodes[name]
            waiting += [parent.node for parent in nodes[name].inputs]
    return [*ancestors.values()]
