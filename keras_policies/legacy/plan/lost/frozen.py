"""Makes weights of the constants of a model that has no variables.

A graph that was frozen (`convert_variables_to_constants_v2`) has its weights as
constants. The weight of an op that a stock layer does, and the bias after it, become
variables again, with numbers below zero; other constants stay:

    dense/MatMul(x, Known), dense/BiasAdd(…, Known) -> dense/MatMul(x, Held), …
"""

import dataclasses
from collections.abc import Mapping, Sequence

from keras_policies.legacy.base.model import LegacyWeight
from keras_policies.legacy.base.recorded import NO_CLASS, Recorded
from keras_policies.legacy.plan.lost.made_layers import layer_for
from keras_policies.legacy.plan.lost.owner import FLOATS
from keras_policies.legacy.plan.lost.steps import (
    Held,
    OpStep,
    Step,
    Value,
    constant,
    op_of,
)

BIASES = "Add", "AddV2", "BiasAdd"


class Frozen:
    """The variables of a model, to which the constants are added that are weights.

    Args:
        recorded: all of a file. Constants stay as they are if it has variables, or
            Keras metadata.
    """

    def __init__(self, recorded: Recorded) -> None:
        self.variables = {**recorded.variables}
        is_known = recorded.layers[0].class_name != NO_CLASS
        self._is_frozen = not (self.variables or is_known)
        self._numbers: dict[tuple[str, int, bytes], int] = {}

    def thawed(self, steps: Sequence[Step]) -> list[Step]:
        """Return steps that take variables in place of constants that are weights."""
        found: list[Step] = [*steps]
        for number, step in enumerate(steps if self._is_frozen else ()):
            if isinstance(step, OpStep):
                inputs = (self._thawed(found, step, i) for i in range(len(step.inputs)))
                found[number] = dataclasses.replace(step, inputs=tuple(inputs))
        return found

    def _thawed(self, steps: Sequence[Step], step: OpStep, position: int) -> Value:
        value = step.inputs[position]
        array = constant(value)
        if array is None or str(array.dtype) not in FLOATS:
            return value
        is_kernel = layer_for(step, position, array.shape) is not None
        if not is_kernel and not (array.ndim == 1 and _adds_to_a_layer(steps, step)):
            return value
        key = step.name, position, array.tobytes()
        if key not in self._numbers:
            self._numbers[key] = number = -1 - len(self._numbers)
            name = step.name.rpartition("/")[0] or step.name
            self.variables[number] = LegacyWeight(
                "", name, array.shape, array.dtype, array.copy
            )
        return Held(self._numbers[key])


def _adds_to_a_layer(steps: Sequence[Step], step: OpStep) -> bool:
    """Return whether a step adds to the result of an op with a weight."""
    before = [op_of(value, steps) for value in step.inputs]
    found = [value for op in before if op is not None for value in op.inputs]
    return step.op in BIASES and any(isinstance(value, Held) for value in found)


def numbers(variables: Mapping[int, LegacyWeight]) -> set[int]:
    """Return the numbers of the variables that were constants."""
    return {number for number in variables if number < 0}
