"""The steps of a traced function: the form between its nodes and Keras layers.

Modules import it as a whole: `ir` is the intermediate representation of compilers.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from keras_policies._common.types import Config
from keras_policies.legacy.base import trees
from keras_policies.legacy.base.programs import Argument as Argument
from keras_policies.legacy.base.programs import StepOutput as StepOutput
from keras_policies.legacy.base.traced_functions import Resource as Resource
from keras_policies.legacy.base.traced_functions import TensorSpec
from keras_policies.legacy.base.traced_functions import VariableRef as VariableRef
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.values import axis_lengths

Nest: TypeAlias = trees.Tree  # lists and dicts of values


@dataclasses.dataclass(frozen=True)
class Anchor:
    """A zero that depends on an input: ops without tensor inputs are called on it."""


@dataclasses.dataclass(frozen=True, eq=False)
class Constant:
    """A constant."""

    value: Any


@dataclasses.dataclass(frozen=True, eq=False)
class TensorList:
    """A list of tensors, some of them not yet there."""

    values: "tuple[Value | None, ...]"


@dataclasses.dataclass(frozen=True, eq=False)
class UnstackedTensor:
    """The list of tensors that a tensor is along its first axis."""

    tensor: "Value"


@dataclasses.dataclass(frozen=True, eq=False)
class Mapped:
    """A value in a round of a loop; `tensor` stacks those of all rounds."""

    tensor: "Value"
    shape: tuple[int | None, ...]  # of one round


Value: TypeAlias = (
    Anchor
    | Argument
    | VariableRef
    | Resource
    | StepOutput
    | Constant
    | TensorList
    | UnstackedTensor
    | Mapped
)


@dataclasses.dataclass(frozen=True, eq=False)
class LayerSpec:
    """A layer that a program calls, perhaps several times."""

    name: str
    class_name: str
    config: Config  # as tf.keras would write it, without the name
    # `(path of the variable from the layer, its number, its shape)`; the shape is None
    # if it is that of the variable.
    weights: tuple[tuple[str, int, tuple[int, ...] | None], ...] = ()
    # Of the traced layer that it is; None if it was found in the steps.
    number: int | None = None
    # How many tensors in a list it takes if its class is missing, else None.
    tensors: int | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class OpStep:
    """A TensorFlow op."""

    name: str
    op: str
    attributes: Mapping[str, Any]
    inputs: tuple[Value, ...]
    shape: tuple[int | None, ...] | None = None  # of its only output, if recorded


@dataclasses.dataclass(frozen=True, eq=False)
class CallStep:
    """A call of a layer; `name` is unique to that layer in its program."""

    spec: LayerSpec
    argument: Nest
    kwargs: Mapping[str, Nest] = dataclasses.field(default_factory=dict)
    name: str = ""


Step: TypeAlias = OpStep | CallStep


class Steps(list[Step]):
    """The steps of a function, to which others are added.

    `specs` are its arguments. `data` are the results of ops on sizes, with a symbolic
    dimension for each unknown one.
    """

    def __init__(
        self,
        steps: Iterable[Step] = (),
        specs: Sequence[TensorSpec] = (),
        data: "dict[Value, Any] | None" = None,
    ) -> None:
        super().__init__(steps)
        self.specs = specs
        self.data: dict[Value, Any] = {} if data is None else data
        # The nodes whose own gradients are not kept.
        self.without_gradients: list[str] = []

    def sizes(self, value: Value) -> list[Any] | None:
        """Return the shape of a tensor with symbolic dimensions, None if not known."""
        shape = shape_of(value, self, self.specs)
        if shape is None:
            return None
        return [*axis_lengths.sizes(shape, str(value)).tolist()]

    def numbers(self, value: Value) -> list[Any] | None:
        """Return the whole numbers in a vector, some symbolic; None if not known."""
        data = value.value if isinstance(value, Constant) else self.data.get(value)
        return None if data is None else [*np.ravel(data).tolist()]

    def add(self, step: Step) -> StepOutput:
        """Add a step; return its first output."""
        self.append(step)
        return StepOutput(len(self) - 1)

    def op(self, name: str, op: str, *inputs: Value, **attributes: Any) -> StepOutput:
        """Add the call of an op; return its first output."""
        return self.add(OpStep(name, op, attributes, inputs))


# The steps of a function, and its outputs, followed by its losses.
Followed: TypeAlias = tuple[Steps, list[Value]]


def mapped(function: Callable[[Value], Any], nest: Nest) -> Nest:
    """Return a nest of values with `function` applied to each."""
    return trees.mapped(lambda x: function(x) if isinstance(x, Value) else x, nest)


def values_in(nest: Nest) -> list[Value]:
    """Return the values in a nest; dicts are flattened by sorted keys."""
    return [leaf for leaf in trees.leaves(nest) if isinstance(leaf, Value)]


def inputs_of(step: Step) -> list[Value]:
    """Return the values that a step takes."""
    if isinstance(step, OpStep):
        return [*step.inputs]
    return values_in([step.argument, dict(step.kwargs)])


def variables_in(steps: Sequence[Step]) -> list[int]:
    """Return the numbers of the variables that some steps take, once each."""
    values = (value for step in steps for value in inputs_of(step))
    return [*dict.fromkeys(v.variable for v in values if isinstance(v, VariableRef))]


def op_of(value: Value, steps: Sequence[Step]) -> OpStep | None:
    """Return the op that makes a value, or None."""
    step = steps[value.step] if isinstance(value, StepOutput) else None
    return step if isinstance(step, OpStep) else None


def shape_of(
    value: Value, steps: Sequence[Step], specs: Sequence[TensorSpec]
) -> Sequence[int | None] | None:
    """Return the shape of a tensor; None if it is neither recorded nor known."""
    if isinstance(value, Argument):
        return specs[value.number].shape
    step = op_of(value, steps)
    if step is None:
        return None
    if step.shape is not None or step.op not in ("Cast", "Transpose"):
        return step.shape
    sizes = shape_of(step.inputs[0], steps, specs)  # TensorFlow 1 recorded no shapes
    if sizes is None or step.op == "Cast":
        return sizes
    order = constant(step.inputs[1])
    return None if order is None else [sizes[int(axis)] for axis in order]


def is_op(step: Step | None, op: str) -> TypeGuard[OpStep]:
    """Return whether a step is a call of an op."""
    return isinstance(step, OpStep) and step.op == op


def constant(value: Value) -> Array | None:
    """Return the array of a constant, or None."""
    return np.asarray(value.value) if isinstance(value, Constant) else None


def items(value: Value) -> list[Any] | None:
    """Return the items of a constant in one list, or None."""
    array = constant(value)
    return None if array is None else array.reshape(-1).tolist()


def same(first: Any, second: Any) -> bool:
    """Return whether two functions have equal steps and outputs."""
    return bool(_comparable(first) == _comparable(second))


def operation(step: Step) -> Any:
    """Return what a step does with its inputs, for `same`."""
    return [step.op, step.attributes] if isinstance(step, OpStep) else id(step.spec)


def _comparable(a: Any) -> Any:
    if isinstance(a, Constant):
        return Constant, _comparable(a.value)
    if isinstance(a, np.ndarray):
        return a.dtype, a.shape, a.tolist() if a.dtype == object else a.tobytes()
    if isinstance(a, OpStep):
        return _comparable([operation(a), a.inputs])
    if isinstance(a, CallStep):
        return _comparable([operation(a), a.argument, a.kwargs])
    if isinstance(a, Mapping):
        return {key: _comparable(value) for key, value in a.items()}
    return [*map(_comparable, a)] if isinstance(a, list | tuple) else (type(a), a)


def needed_steps(steps: Sequence[Step | StepOutput], outputs: Nest) -> list[int]:
    """Return the numbers of the steps that the outputs need, in order."""
    wanted = {
        value.step for value in values_in(outputs) if isinstance(value, StepOutput)
    }
    for number in reversed(range(len(steps))):
        if number in wanted:
            step = steps[number]
            inputs = [step] if isinstance(step, StepOutput) else inputs_of(step)
            wanted |= {value.step for value in inputs if isinstance(value, StepOutput)}
    return sorted(wanted)
