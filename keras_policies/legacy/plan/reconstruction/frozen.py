"""Makes weights of the constants of a model that has no variables.

A graph that was frozen (`convert_variables_to_constants_v2`) has its weights as
constants. The weight of an op that a stock layer does, and the bias after it, become
variables again, with negative numbers; other constants stay:

    MatMul(x, Constant), BiasAdd(…, Constant) -> MatMul(x, VariableRef), …

So do the constants that the loop of a recurrent layer takes.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from keras_policies.legacy.base.traced_functions import (
    FLOATS,
    NO_CLASS,
    TracedFunctions,
)
from keras_policies.legacy.base.weights import Array, LegacyWeight
from keras_policies.legacy.plan.reconstruction import ir
from keras_policies.legacy.plan.reconstruction.layer_rules import ADDITIONS, layer_for


class Frozen:
    """The variables of a model, and its constants that are weights.

    Constants stay as they are if the file has variables, or Keras metadata.
    """

    def __init__(self, traced: TracedFunctions) -> None:
        self.variables = {**traced.variables}
        has_metadata = traced.layers[0].class_name != NO_CLASS
        self._is_frozen = not (self.variables or has_metadata)
        self._numbers: dict[tuple[str, int, bytes], int] = {}

    def thawed(self, steps: ir.Steps) -> ir.Steps:
        """Return steps that take variables in place of constants that are weights."""
        new = ir.Steps(steps, steps.specs, steps.data)
        new.without_gradients = steps.without_gradients
        for number, step in enumerate(steps if self._is_frozen else ()):
            if isinstance(step, ir.OpStep):
                inputs = (self._thawed(new, step, i) for i in range(len(step.inputs)))
                new[number] = dataclasses.replace(step, inputs=tuple(inputs))
        return new

    def _thawed(
        self, steps: Sequence[ir.Step], step: ir.OpStep, position: int
    ) -> ir.Value:
        value = step.inputs[position]
        array = ir.constant(value)
        if array is None or str(array.dtype) not in FLOATS:
            return value
        is_kernel = layer_for(step, position, array.shape) is not None
        if not is_kernel and not (array.ndim == 1 and _adds_to_a_layer(steps, step)):
            return value
        return self._as_variable(step.name, position, array)

    def _as_variable(self, name: str, position: int, array: Array) -> ir.VariableRef:
        """Return a variable in the place of a constant that a step takes."""
        key = name, position, array.tobytes()
        if key not in self._numbers:
            self._numbers[key] = number = -1 - len(self._numbers)
            scope = name.rpartition("/")[0] or name
            weight = LegacyWeight("", scope, array.shape, array.dtype, array.copy)
            self.variables[number] = weight
        return ir.VariableRef(self._numbers[key])

    def loop_inputs(
        self, name: str, values: Sequence[ir.Value], steps: ir.Steps
    ) -> list[ir.Value]:
        """Return the inputs of a loop, with variables for those that may be weights.

        Two vectors are the rows of the bias of a GRU, which was split before the loop.
        """
        new_values = [*values]
        arrays = {i: ir.constant(v) for i, v in enumerate(values) if self._is_frozen}
        floats = {
            i: array
            for i, array in arrays.items()
            if array is not None and str(array.dtype) in FLOATS and array.any()
        }
        rows = {i: array for i, array in floats.items() if array.ndim == 1}
        if len(rows) == 2 and len({array.shape for array in rows.values()}) == 1:
            bias = self._as_variable(name, min(rows), np.stack([*rows.values()]))
            first = steps.op(f"{name}/bias", "Unpack", bias, axis=0)
            for row, i in enumerate(rows):
                new_values[i] = ir.StepOutput(first.step, row)
                del floats[i]
        for i, array in floats.items():
            if array.ndim:
                new_values[i] = self._as_variable(f"{name}/{i}", i, array)
        return new_values


def _adds_to_a_layer(steps: Sequence[ir.Step], step: ir.OpStep) -> bool:
    """Return whether a step adds to the result of an op with a weight."""
    before = [ir.op_of(value, steps) for value in step.inputs]
    values = [value for op in before if op is not None for value in op.inputs]
    return step.op in ADDITIONS and any(isinstance(v, ir.VariableRef) for v in values)
