"""A While that may be the loop of a recurrent layer, and its inputs."""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from keras_policies.legacy.base.model import Array
from keras_policies.legacy.base.traced_functions import (
    PASSING,
    Function,
    Node,
    TensorSpec,
    TracedFunctions,
)
from keras_policies.legacy.guards import limits
from keras_policies.legacy.ops import node_def
from keras_policies.legacy.plan.reconstruction.steps import (
    Constant,
    OpStep,
    Step,
    StepOutput,
    UnstackedTensor,
    Value,
    VariableRef,
    constant,
    is_op,
    op_of,
)

SWAP = [1, 0, 2]  # the axes of batch and time


@dataclasses.dataclass(frozen=True)
class Loop:
    """A While and its inputs."""

    node: Node
    values: Sequence[Value]
    traced: TracedFunctions
    steps: Sequence[Step]
    specs: Sequence[TensorSpec]

    @functools.cached_property
    def stays(self) -> list[bool]:
        """list of bool, whether each value is the same after every round."""
        body = self.traced.functions[str(self.node.attributes.get("body"))]
        ends = zip(body.arguments, body.outputs, strict=True)
        return [_first(body, end.node) == name for name, end in ends]

    def op(self, value: Value) -> OpStep | None:
        """Return the op that makes a value, or None."""
        return op_of(value, self.steps)

    def weights(self) -> list[VariableRef]:
        """Return the variables that the values which stay are made of."""
        return self.variables(itertools.compress(self.values, self.stays))

    def variables(self, values: Iterable[Value]) -> list[VariableRef]:
        """Return the variables that some values are made of."""
        waiting = [*values]
        variables: dict[VariableRef, None] = {}
        seen: set[Value] = set()
        while waiting and len(seen) < limits.SIZE_STEPS:
            value = waiting.pop(0)
            if isinstance(value, VariableRef):
                variables[value] = None
            step = self.op(value)
            if step is not None and step.op != "Shape" and not self.is_zero(value):
                waiting += [item for item in step.inputs if item not in seen]
                seen.update(step.inputs)
        return [*variables]

    def array(
        self, value: Value, arrays: dict[Value, Array], depth: int = limits.SIZE_STEPS
    ) -> Array:
        """Evaluate a value from those in `arrays`; add intermediate ones to them."""
        if isinstance(value, Constant):
            return np.asarray(value.value)
        if value not in arrays:
            step = self.op(value)
            if step is None or depth == 0 or not isinstance(value, StepOutput):
                raise ValueError("it depends on more than is known")
            inputs = [self.array(item, arrays, depth - 1) for item in step.inputs]
            if step.op == "Cast" and inputs[0].dtype.kind == "f":
                return inputs[0]  # the body computes in float32, too
            result = node_def.call({"op": step.op, "attr": step.attributes}, inputs, {})
            results = result if isinstance(result, tuple | list) else [result]
            arrays[value] = np.asarray(results[value.position])
        return arrays[value]

    def is_zero(self, value: Value) -> bool:
        """Return whether a value is a matrix of zeros."""
        array, step = constant(value), self.op(value)
        if array is not None:
            return array.ndim == 2 and not array.any()
        full = constant(step.inputs[1]) if is_op(step, "Fill") else None
        return is_op(step, "ZerosLike") or (full is not None and not full.any())

    def origin(self, position: int) -> "Origin":
        """Return the tensor that the rows at a position come from."""
        rows = self.values[position]
        value = rows.tensor if isinstance(rows, UnstackedTensor) else rows
        step = self.op(value)
        if is_reversed := is_op(step, "ReverseV2") and _is(step.inputs[1], [0]):
            value = step.inputs[0]
            step = self.op(value)
        is_swapped = is_op(step, "Transpose") and _is(step.inputs[1], SWAP)
        tensor = step.inputs[0] if step is not None and is_swapped else None
        return Origin(value, tensor, is_reversed)

    def mask(self, position: int) -> Value | None:
        """Return the mask, by examples and times, whose rows are at a position."""
        tensor = self.origin(position).batch_major
        step = None if tensor is None else self.op(tensor)
        is_column = is_op(step, "ExpandDims") and constant(step.inputs[1]) in (-1, 2)
        return step.inputs[0] if step is not None and is_column else None


class Origin(NamedTuple):
    """The tensor whose rows a loop takes.

    Args:
        time_major: it, before it was reversed.
        batch_major: the same with the axes of batch and time swapped, or None.
    """

    time_major: Value
    batch_major: Value | None
    is_reversed: bool


def _is(value: Value, expected: list[int]) -> bool:
    array = constant(value)
    return array is not None and array.reshape(-1).tolist() == expected


def _first(function: Function, name: str) -> str:
    """Return the argument or the node that a node passes on."""
    for _ in range(limits.SIZE_STEPS):
        node = function.nodes.get(name)
        if node is None or node.op not in PASSING or len(node.inputs) != 1:
            break
        name = node.inputs[0].node
    return name
