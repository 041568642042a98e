"""A While that may be the loop of a recurrent layer, and what it takes."""

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
    """A While, and the values that it takes."""

    node: Node
    values: Sequence[Value]
    traced: TracedFunctions
    steps: Sequence[Step]
    specs: Sequence[TensorSpec]

    @functools.cached_property
    def stays(self) -> list[bool]:
        """Which values no round changes."""
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
        found: dict[VariableRef, None] = {}
        seen: set[Value] = set()
        while waiting and len(seen) < limits.SIZE_STEPS:
            value = waiting.pop(0)
            if isinstance(value, VariableRef):
                found[value] = None
            step = self.op(value)
            if step is not None and step.op != "Shape" and not self.is_zero(value):
                waiting += [one for one in step.inputs if one not in seen]
                seen.update(step.inputs)
        return [*found]

    def array(
        self, value: Value, known: dict[Value, Array], depth: int = limits.SIZE_STEPS
    ) -> Array:
        """Return what a value is, by those that are known; add those on the way."""
        if isinstance(value, Constant):
            return np.asarray(value.value)
        if value not in known:
            step = self.op(value)
            if step is None or depth == 0 or not isinstance(value, StepOutput):
                raise ValueError("it depends on more than is known")
            inputs = [self.array(one, known, depth - 1) for one in step.inputs]
            if step.op == "Cast" and inputs[0].dtype.kind == "f":
                return inputs[0]  # the body computes in float32, too
            found = node_def.call({"op": step.op, "attr": step.attributes}, inputs, {})
            every = found if isinstance(found, tuple | list) else [found]
            known[value] = np.asarray(every[value.position])
        return known[value]

    def is_zero(self, value: Value) -> bool:
        """Return whether a value is a matrix of zeros."""
        known, step = constant(value), self.op(value)
        if known is not None:
            return known.ndim == 2 and not known.any()
        full = constant(step.inputs[1]) if is_op(step, "Fill") else None
        return is_op(step, "ZerosLike") or (full is not None and not full.any())

    def origin(self, position: int) -> "Origin":
        """Return what the rows at a position are made of."""
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
    known = constant(value)
    return known is not None and known.reshape(-1).tolist() == expected


def _first(function: Function, name: str) -> str:
    """Return the argument or the node that a node passes on."""
    for _ in range(limits.SIZE_STEPS):
        node = function.nodes.get(name)
        if node is None or node.op not in PASSING or len(node.inputs) != 1:
            break
        name = node.inputs[0].node
    return name
