"""Loops that are not recurrent layers, and the lists of tensors that they fill.

A static number of rounds is followed round by round. All rounds of `tf.map_fn` are
computed at once: its ops get one more axis, the first. A loop is a `tf.map_fn` if its
rounds read and write the items of their own number alone; so is `tf.scan` if no round
uses the result of the last one.

    n = Shape(x)[0]
    While(0, n, TensorListReserve(n), TensorListFromTensor(x), w)
        TensorListSetItem(list, i, Tanh(MatMul(TensorListGetItem(items, i), w)))
    ->  Tanh(BatchMatMulV2(x, w))
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from keras_policies.legacy.base.errors import UNEXPECTED, LegacyModelError, attempt
from keras_policies.legacy.base.traced_functions import Node
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import budget, limits
from keras_policies.legacy.plan.reconstruction import ir
from keras_policies.legacy.plan.reconstruction.idioms import DROPOUT
from keras_policies.legacy.plan.reconstruction.recurrent_probes import Loop, first

# Ops whose operands are aligned at their last axes.
ALIGNED = (
    *("Abs", "Add", "AddV2", "BatchMatMul", "BatchMatMulV2", "BiasAdd", "Cast", "Cos"),
    *("DivNoNan", "Elu", "Equal", "Exp", "Floor", "FloorDiv", "FloorMod", "Greater"),
    *("GreaterEqual", "LeakyRelu", "Less", "LessEqual", "Log", "Log1p", "LogSoftmax"),
    *("LogicalAnd", "LogicalNot", "LogicalOr", "MatMul", "Maximum", "Minimum", "Mul"),
    *("Neg", "NotEqual", "OnesLike", "Pow", "RealDiv", "Relu", "Relu6", "Round"),
    *("Rsqrt", "SelectV2", "Sigmoid", "Sign", "Sin", "Softmax", "Softplus", "Sqrt"),
    *("Square", "SquaredDifference", "StopGradient", "Sub", "Tanh", "ZerosLike"),
)
ALONG_AXES = (
    *("All", "Any", "ArgMax", "ArgMin", "ConcatV2", "Cumsum", "ExpandDims", "Max"),
    *("Mean", "Min", "Prod", "Sum"),
)
ZERO, ONE = ir.Constant(np.int32(0)), ir.Constant(np.int32(1))
Values: TypeAlias = list[ir.Value]
NewInputs: TypeAlias = tuple[Values, Mapping[str, Any]]  # and attributes that change
Follow: TypeAlias = Callable[[str, Sequence[ir.Value]], Values]


def list_result(
    node: Node, inputs: Sequence[ir.Value], steps: ir.Steps
) -> ir.Value | None:
    """Return the result of an op on a list of tensors, or None if it is not static."""
    first, *others = inputs
    if node.op == "TensorListReserve":
        size = ir.constant(others[0])
        return None if size is None else ir.TensorList((None,) * _count(int(size)))
    if node.op == "TensorListFromTensor":
        return ir.UnstackedTensor(first)
    if isinstance(first, ir.UnstackedTensor) and node.op == "TensorListGetItem":
        row = ir.constant(others[0])
        return None if row is None else steps.add(_row(node.name, first.tensor, row))
    if isinstance(first, ir.UnstackedTensor) and node.op == "TensorListStack":
        return first.tensor
    if not isinstance(first, ir.TensorList):
        return None
    # Each item is an input of what stacks them, or is copied for a new list.
    takes = {"TensorListStack": budget.STEP, "TensorListSetItem": budget.COPY}
    budget.work(len(first.values) * takes.get(node.op, 0))
    if node.op == "TensorListLength":
        return ir.Constant(np.int32(len(first.values)))
    if node.op == "TensorListStack" and None not in first.values:
        items = tuple(value for value in first.values if value is not None)
        return steps.op(node.name, "Pack", *items, axis=0)
    index = ir.constant(others[0]) if others else None
    if index is None or not 0 <= int(index) < len(first.values):
        return None
    if node.op == "TensorListGetItem":
        return first.values[int(index)]
    if node.op == "TensorListSetItem":
        values = [*first.values]
        values[int(index)] = others[1]
        return ir.TensorList(tuple(values))
    return None


def _row(name: str, tensor: ir.Value, row: Array) -> ir.OpStep:
    bounds = [ir.Constant([int(row)]), ir.Constant([int(row) + 1]), ir.Constant([1])]
    return ir.OpStep(name, "StridedSlice", {"shrink_axis_mask": 1}, (tensor, *bounds))


def _count(number: int) -> int:
    if not 0 <= number <= limits.LIST_ITEMS:
        reason = f"a list of {number} tensors, expected at most {limits.LIST_ITEMS}."
        raise LegacyModelError(reason)
    return number


def mapped(loop: Loop, follow: Follow) -> Values | None:
    """Return the results of a loop over the items of tensors; None for any other."""
    body = loop.traced.functions[str(loop.node.attributes.get("body"))]
    used = {output.node for node in body.nodes.values() for output in node.inputs}
    size, starts = _size(loop), Values()
    if size is None:
        return None
    numbers = loop.steps.op(f"{loop.node.name}/rounds", "Range", ZERO, size, ONE)
    for name, value, stays in zip(body.arguments, loop.values, loop.stays, strict=True):
        is_number = not stays and ir.items(value) == [0]
        is_list = ir.is_op(loop.op(value), "TensorListReserve")
        if name in used and not (stays or is_number or is_list):
            return None
        starts.append(ir.Mapped(numbers, ()) if is_number else value)
    with attempt(*UNEXPECTED):
        ends = follow(body.name, starts)
        return [_end(loop, size, *pair) for pair in zip(starts, ends, strict=True)]
    return None


def _size(loop: Loop) -> ir.Value | None:
    """Return the number of rounds if it is the length of a tensor's first axis."""
    condition = loop.traced.functions[str(loop.node.attributes.get("cond"))]
    values = dict(zip(condition.arguments, loop.values, strict=True))
    tensors = [v.tensor for v in loop.values if isinstance(v, ir.UnstackedTensor)]
    nodes = condition.nodes.values()
    ends = [first(condition, n.inputs[1].node) for n in nodes if n.op == "Less"]
    sizes = {values.get(name, ONE) for name in ends}
    others = {node.op for node in nodes} - {"Identity", "Less", "LogicalAnd"}
    size = sizes.pop() if len(sizes) == 1 and not others else ONE
    item = loop.op(size)
    if not ir.is_op(item, "StridedSlice") or ir.items(item.inputs[1]) != [0]:
        return None
    shape = loop.op(item.inputs[0])
    is_length = ir.is_op(shape, "Shape") and shape.inputs[0] in tensors
    return size if is_length else None


def _end(loop: Loop, size: ir.Value, start: ir.Value, end: ir.Value) -> ir.Value:
    """Return a result of the loop from a value before a round and after it."""
    if start is end or isinstance(end, ir.UnstackedTensor):
        return end
    if not isinstance(start, ir.Mapped):  # unused: the last round decides
        name, last = f"{loop.node.name}/last", ir.Constant(np.int32(-1))
        return loop.steps.op(name, "GatherV2", _tensor(end), last, ZERO)
    step = loop.op(_tensor(end))
    number, one = step.inputs if ir.is_op(step, "AddV2") else (None, ZERO)
    if number != start.tensor or ir.items(one) != [1]:
        raise ValueError("it is carried from round to round")
    return size


def emitted(node: Node, inputs: Values, steps: ir.Steps) -> ir.Value:
    """Return the value of a node in a round; add the step for all rounds."""
    if node.shape is None:
        raise ValueError("its shape is not recorded")
    budget.check_rank(node.shape)
    if node.op == "Shape" and isinstance(inputs[0], ir.Mapped):
        return ir.Constant(np.array(inputs[0].shape, "int32"))
    if node.op == "TensorListGetItem" and _is_number(inputs[1], steps):
        return ir.Mapped(_tensor(inputs[0]), node.shape)
    if node.op == "TensorListSetItem" and _is_number(inputs[1], steps):
        return ir.UnstackedTensor(_tensor(inputs[2]))
    taken, changed = RULES[node.op](node, inputs, steps)
    op = {"MatMul": "BatchMatMulV2", "Squeeze": "Reshape"}.get(node.op, node.op)
    step = ir.OpStep(node.name, op, {**node.attributes, **changed}, tuple(taken))
    return ir.Mapped(steps.add(step), node.shape)


def _tensor(value: ir.Value) -> ir.Value:
    if not isinstance(value, ir.Mapped | ir.UnstackedTensor):
        raise ValueError("it is the same in all rounds")
    return value.tensor


def _is_number(value: ir.Value, steps: ir.Steps) -> bool:
    """Return whether a value is the number of its round."""
    step = ir.op_of(_tensor(value), steps)
    return ir.is_op(step, "Range") and [*map(ir.items, step.inputs[::2])] == [[0], [1]]


def _next(axes: Any) -> Any:
    """Return axes behind the new one; negative ones stay."""
    return np.where(np.less(axes, 0), axes, np.add(axes, 1)).astype("int32")


def _aligned(node: Node, inputs: Values, steps: ir.Steps) -> NewInputs:
    """Give each operand as many axes after the first as the result has."""
    taken: Values = []
    for value in inputs:
        if isinstance(value, ir.Mapped):
            missing, value = len(node.shape or ()) - len(value.shape), value.tensor
            for _ in range(missing):
                value = steps.op(f"{node.name}/axis", "ExpandDims", value, ONE)
        taken.append(value)
    names = {"adj_x": "transpose_a", "adj_y": "transpose_b"}
    adjoint = {key: node.attributes.get(name) for key, name in names.items()}
    return taken, adjoint if node.op == "MatMul" else {}


def _last(change: Callable[[Any], Any]) -> "Rule":
    """Return the rule of an op whose last input is about axes."""

    def rule(node: Node, inputs: Values, steps: ir.Steps) -> NewInputs:
        *tensors, last = inputs
        changed = np.asarray(change(ir.constant(last)), "int32")
        return [*map(_tensor, tensors), ir.Constant(changed)], {}

    return rule


def _reshaped(node: Node, inputs: Values, steps: ir.Steps) -> NewInputs:
    (value, *_), shape = inputs, np.array([-1, *(node.shape or ())], "int32")
    return [_tensor(value), ir.Constant(shape)], {}


def _sliced(node: Node, inputs: Values, steps: ir.Steps) -> NewInputs:
    value, *bounds = inputs
    arrays = [ir.items(each) for each in bounds]
    if None in arrays:
        raise ValueError("its bounds are computed")
    pairs = zip((0, 0, 1), arrays, strict=True)
    masks = {key: int(n) << 1 for key, n in node.attributes.items() if "_mask" in key}
    whole = {key: masks.get(key, 0) | 1 for key in ("begin_mask", "end_mask")}
    new = [ir.Constant(np.array([n, *(array or ())])) for n, array in pairs]
    return [_tensor(value), *new], {**masks, **whole}


def _gathered(node: Node, inputs: Values, steps: ir.Steps) -> NewInputs:
    values, at, axis = inputs
    both = int(isinstance(at, ir.Mapped))
    if node.attributes.get("batch_dims"):
        raise ValueError("it has batch axes of its own")
    if ir.items(axis) == [0] and not isinstance(values, ir.Mapped):
        return [values, _tensor(at), axis], {}  # rows of one table
    axes = ir.Constant(_next(ir.constant(axis)))
    return [_tensor(values), _tensor(at) if both else at, axes], {"batch_dims": both}


def _dropped(node: Node, inputs: Values, steps: ir.Steps) -> NewInputs:
    shape = node.attributes["noise_shape"]
    return [_tensor(inputs[0])], {"noise_shape": shape and (None, *shape)}


Rule: TypeAlias = Callable[[Node, Values, ir.Steps], NewInputs]
RULES: Mapping[str, Rule] = {
    **dict.fromkeys(ALIGNED, _aligned),
    **dict.fromkeys(ALONG_AXES, _last(_next)),
    DROPOUT: _dropped,
    "GatherV2": _gathered,
    "Reshape": _reshaped,
    "ResourceGather": lambda node, inputs, steps: ([inputs[0], _tensor(inputs[1])], {}),
    "Squeeze": _reshaped,
    "StridedSlice": _sliced,
    "Tile": _last(lambda times: [1, *times]),
    "Transpose": _last(lambda order: [0, *(order + 1)]),
}
