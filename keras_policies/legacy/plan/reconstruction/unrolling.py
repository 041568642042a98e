"""Loops with a static number of rounds, and the lists of tensors that they fill."""

from collections.abc import Callable, Sequence

import numpy as np

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.traced_functions import Node, TensorSpec
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import budget, limits
from keras_policies.legacy.plan.reconstruction import ir

Follow = Callable[[str, Sequence[ir.Value]], list[ir.Value]]


def unrolled(
    node: Node, values: list[ir.Value], follow: Follow
) -> list[ir.Value] | None:
    """Return the results of a loop, after following its rounds one after another.

    None if the number of its rounds depends on the data.
    """
    condition, body = (str(node.attributes.get(name)) for name in ("cond", "body"))
    for _ in range(limits.LOOP_ROUNDS + 1):
        (condition_output,) = follow(condition, values)
        goes_on = ir.constant(condition_output)
        if goes_on is None:
            return None
        if not np.all(goes_on):
            return values
        values = follow(body, values)
    raise LegacyModelError(
        f"the loop {node.name!r} has more than {limits.LOOP_ROUNDS} rounds, too many "
        "to be unrolled."
    )


def shape_of(
    value: ir.Value, steps: Sequence[ir.Step], specs: Sequence[TensorSpec]
) -> Sequence[int | None] | None:
    """Return the shape of a tensor; None if it is neither recorded nor known."""
    if isinstance(value, ir.Argument):
        return specs[value.number].shape
    step = ir.op_of(value, steps)
    if step is None:
        return None
    if step.shape is not None or step.op not in ("Cast", "Transpose"):
        return step.shape
    sizes = shape_of(step.inputs[0], steps, specs)  # TensorFlow 1 recorded no shapes
    if sizes is None or step.op == "Cast":
        return sizes
    order = ir.constant(step.inputs[1])
    return None if order is None else [sizes[int(axis)] for axis in order]


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
    """Return the step that takes a row of a tensor."""
    bounds = [ir.Constant([int(row)]), ir.Constant([int(row) + 1]), ir.Constant([1])]
    return ir.OpStep(name, "StridedSlice", {"shrink_axis_mask": 1}, (tensor, *bounds))


def _count(number: int) -> int:
    if not 0 <= number <= limits.LIST_ITEMS:
        reason = f"a list of {number} tensors, expected at most {limits.LIST_ITEMS}."
        raise LegacyModelError(reason)
    return number
