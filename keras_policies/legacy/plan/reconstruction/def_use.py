"""Def-use chains: which steps take which value and which variable of the owner.

The owner is the layer whose steps become layers, with its policy and its variables.
"""

import collections
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from keras_policies._common.types import Config
from keras_policies.legacy.base.traced_functions import FLOATS
from keras_policies.legacy.base.weights import LegacyWeight
from keras_policies.legacy.ops import converters
from keras_policies.legacy.plan import policies
from keras_policies.legacy.plan.reconstruction import ir
from keras_policies.legacy.plan.reconstruction.losses import Regularizers


@dataclasses.dataclass(frozen=True)
class Owner:
    """The layer whose function is rebuilt."""

    dtype: Any  # its policy as written, or None
    trainable: frozenset[int]  # the numbers of the variables that it trains
    variables: Mapping[int, LegacyWeight]  # those of the file, by number
    regularizers: Regularizers  # those of its variables

    @functools.cached_property
    def mixed(self) -> str | None:
        """str, the compute dtype of a mixed policy, None for any other policy."""
        compute, variable = policies.dtypes_of(self.dtype)
        return compute if compute != variable and compute in FLOATS else None

    def config(self, dtype: Any, **variables: int) -> Config:
        """Return the arguments of a layer that holds variables under these names."""
        trains = any(number in self.trainable for number in variables.values())
        regularized = {
            f"{name}_regularizer": self.regularizers.stock(number)
            for name, number in variables.items()
            if self.regularizers.stock(number) is not None
        }
        return {"dtype": dtype, "trainable": trains or not variables, **regularized}

    def label(self, variable: int) -> str:
        """Return a name for the layer that holds a variable."""
        scopes = self.variables[variable].name.partition(":")[0].split("/")
        return "_".join(scopes[1:] or scopes) or "weight"

    def is_cast(self, step: ir.OpStep) -> bool:
        """Return whether a step casts a tensor to the compute dtype of the policy."""
        is_mixed = self.mixed is not None and step.op == "Cast"
        return is_mixed and name_of_dtype(step, "DstT") == self.mixed


def name_of_dtype(step: ir.OpStep, attribute: str) -> str:
    """Return the name in numpy of a dtype that is an attribute of an op."""
    value = step.attributes.get(attribute)
    return str(converters.DTYPES.get(str(value), value))


OUTPUT = -1  # in the place of a step that takes a value


class Read(NamedTuple):
    """A variable in the form in which a step takes it."""

    variable: int
    shape: tuple[int, ...]  # perhaps with more axes in front
    is_cast: bool = False  # to the compute dtype


class Use(NamedTuple):
    """One use of a variable by a step."""

    step: int
    position: int
    read: Read


@dataclasses.dataclass(frozen=True)
class Uses:
    """The steps of a layer, with def-use chains."""

    owner: Owner
    steps: ir.Steps
    # The numbers of the steps that take a value, by value.
    users: Mapping[ir.Value, Sequence[int]]
    reads: Mapping[ir.Value, Read]  # the values that are a variable
    of: Mapping[int, Sequence[Use]]  # the uses of each variable

    def only_user(self, number: int) -> tuple[int, ir.OpStep | None]:
        """Return the one op that takes the output of a step, or `(OUTPUT, None)`."""
        users = self.users[ir.StepOutput(number)]
        user = users[0] if len(users) == 1 else OUTPUT
        step = None if user == OUTPUT else self.steps[user]
        return (user, step) if isinstance(step, ir.OpStep) else (OUTPUT, None)


def chains(owner: Owner, steps: ir.Steps, outputs: ir.Nest) -> Uses:
    """Return the def-use chains of the steps of a layer with these outputs."""
    users: dict[ir.Value, list[int]] = collections.defaultdict(list)
    reads: dict[ir.Value, Read] = {}
    uses: dict[int, list[Use]] = collections.defaultdict(list)
    inputs_by_step = [
        (n, ir.inputs_of(steps[n])) for n in ir.needed_steps(steps, outputs)
    ]
    for number, inputs in [*inputs_by_step, (OUTPUT, ir.values_in(outputs))]:
        for value in inputs:
            users[value].append(number)
            if isinstance(value, ir.VariableRef):
                shape = owner.variables[value.variable].shape
                reads[value] = Read(value.variable, shape)
        same = None if number == OUTPUT else _same_variable(owner, steps[number], reads)
        if same is not None:
            reads[ir.StepOutput(number)] = same
            continue
        for position, value in enumerate(inputs):
            if value in reads:
                use = Use(number, position, reads[value])
                uses[use.read.variable].append(use)
    return Uses(owner, steps, users, reads, uses)


def _same_variable(
    owner: Owner, step: ir.Step, reads: Mapping[ir.Value, Read]
) -> Read | None:
    """Return the variable that a step only casts, or gives a leading axis."""
    if not isinstance(step, ir.OpStep) or not step.inputs:
        return None
    read = reads.get(step.inputs[0])
    if read is None:
        return None
    if owner.is_cast(step):
        return Read(read.variable, read.shape, is_cast=True)
    if step.op == "ExpandDims" and ir.items(step.inputs[1]) == [0]:
        return Read(read.variable, (1, *read.shape), read.is_cast)
    return read if _changes_nothing(step, read.shape) else None


def dtype_of(read: Read, owner: Owner) -> Any:
    """Return the policy of a layer that holds a variable."""
    dtype = str(owner.variables[read.variable].dtype)
    same = policies.dtypes_of(owner.dtype)[1] == dtype
    follows = same if owner.mixed is None else read.is_cast
    return owner.dtype if follows else dtype


def _changes_nothing(step: ir.OpStep, shape: tuple[int, ...]) -> bool:
    """Return whether a Transpose or a Reshape leaves a variable as it is."""
    wanted = ir.constant(step.inputs[1]) if len(step.inputs) == 2 else None
    if wanted is None or wanted.dtype.kind not in "iO" or wanted.ndim != 1:
        return False
    values: list[int] = wanted.tolist()
    if step.op == "Transpose":
        return values == [*range(len(shape))]
    fits = all(n in (-1, size) for n, size in zip(values, shape, strict=False))
    is_same = len(values) == len(shape) and values.count(-1) <= 1 and fits
    return step.op == "Reshape" and is_same
