"""Replaces the variables in steps by stock layers that hold them."""

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_policies.legacy.base.model import Config, LegacyWeight
from keras_policies.legacy.ops import kinds
from keras_policies.legacy.plan import policies
from keras_policies.legacy.plan.lost import made_layers
from keras_policies.legacy.plan.lost.made_layers import Made
from keras_policies.legacy.plan.lost.steps import (
    Argument,
    CallStep,
    Held,
    Known,
    Nest,
    OpStep,
    Part,
    Result,
    Step,
    Value,
    constant,
    inputs_of,
    mapped,
)

ADDITIONS = "Add", "AddV2", "BiasAdd"
SIZES = "Shape", "ShapeN", "Size", "Rank"
MAX_SIZES = 100  # steps that compute the sizes of a product
FLOATS = "bfloat16", "float16", "float32", "float64"


@dataclasses.dataclass(frozen=True)
class Owner:
    """The layer whose steps these are.

    Args:
        dtype: its policy as written, or None.
        trainable: the numbers of the variables that it trains.
        variables: those of the file, by number.
    """

    name: str
    dtype: Any
    trainable: frozenset[int]
    variables: Mapping[int, LegacyWeight]

    @property
    def mixed(self) -> str | None:
        """str, the compute dtype of a mixed policy, None for any other policy."""
        compute, variable = policies.dtypes_of(self.dtype)
        return compute if compute != variable and compute in FLOATS else None

    def config(self, dtype: Any, *variables: int) -> Config:
        """Return the arguments that all layers have."""
        trains = any(number in self.trainable for number in variables)
        return {"dtype": dtype, "trainable": trains or not variables}

    def label(self, variable: int) -> str:
        """Return a name for the layer that holds a variable."""
        parts = self.variables[variable].name.partition(":")[0].split("/")
        return "_".join(parts[1:] or parts) or "weight"


@dataclasses.dataclass(frozen=True)
class Use:
    """A place where a step takes a variable."""

    step: int
    position: int
    shape: tuple[int, ...]  # of the variable as it is taken
    is_cast: bool  # to the compute dtype


def name_of_dtype(value: object) -> str:
    """Return the name of a dtype in numpy."""
    return str(kinds.DTYPES.get(str(value), value))


class Weights:
    """Rewrites the steps of one layer, its variables becoming layers.

    Args:
        owner: the layer.
        steps: what it does.
        outputs: a nest of values.
        arguments: the dtype of each argument as recorded.
    """

    def __init__(
        self,
        owner: Owner,
        steps: Sequence[Step],
        outputs: Nest,
        arguments: Sequence[str],
    ) -> None:
        self.owner, self.old = owner, steps
        self.steps: list[Step] = []
        self._made: dict[Value, Value] = {}  # as it was -> as it is
        self._held: dict[int, Value] = {}
        self._zero: Value | None = None
        self._static: set[int] = set()
        self._flat: dict[int, tuple[Value, int] | None] = {}
        self._users: dict[Value, list[int]] = collections.defaultdict(list)
        for number, step in enumerate(steps):
            for value in inputs_of(step):
                self._users[value].append(number)
        mapped(lambda value: self._users[value].append(-1), outputs)
        self._aliases = self._found_aliases()
        self._uses = self._found_uses(outputs)
        self._layers: dict[int, tuple[Made, Part]] = {}
        self._with_bias: dict[int, tuple[int, int]] = {}  # step -> addition, variable
        for variable, uses in self._uses.items():
            self._choose(variable, uses)
        for number, dtype in enumerate(arguments):
            if dtype == self.owner.mixed:
                argument = Argument(number)
                self._made[argument] = self._cast(f"input_{number}_cast", argument)
        skipped = {addition for addition, _ in self._with_bias.values()}
        skipped |= {
            self._end(use.step)
            for variable, uses in self._uses.items()
            if variable in self._layers
            for use in uses
            if self._end(use.step) != use.step and self._does(use.step, variable)
        }
        for number, step in enumerate(steps):
            if number not in skipped:
                self._rewrite(number, step)
        self.outputs = mapped(self._output, outputs)

    # What takes which variable.

    def _found_aliases(self) -> dict[Value, Use]:
        """Return the values that are a variable, cast or with another axis in front."""
        found: dict[Value, Use] = {}
        for number, step in enumerate(self.old):
            if not isinstance(step, OpStep) or not step.inputs:
                continue
            taken = self._alias(step.inputs[0], found)
            if taken is None:
                continue
            if step.op == "Cast" and self._to_compute(step):
                use = dataclasses.replace(taken, is_cast=True)
            elif step.op == "ExpandDims" and _is_zero(step.inputs[1]):
                use = dataclasses.replace(taken, shape=(1, *taken.shape))
            elif _changes_nothing(step, taken.shape):
                use = taken
            else:
                continue
            found[Result(number)] = use
        return found

    def _to_compute(self, step: OpStep) -> bool:
        dtype = name_of_dtype(step.attributes.get("DstT"))
        return self.owner.mixed is not None and dtype == self.owner.mixed

    def _alias(self, value: Value, found: Mapping[Value, Use]) -> Use | None:
        """Return a use whose step is the number of the variable."""
        if isinstance(value, Held):
            shape = self.owner.variables[value.variable].shape
            return Use(value.variable, 0, shape, False)
        return found.get(value)

    def _found_uses(self, outputs: Nest) -> dict[int, list[Use]]:
        found: dict[int, list[Use]] = collections.defaultdict(list)
        for number, step in enumerate(self.old):
            if Result(number) in self._aliases:
                continue
            for position, value in enumerate(inputs_of(step)):
                alias = self._alias(value, self._aliases)
                if alias is not None:
                    use = Use(number, position, alias.shape, alias.is_cast)
                    found[alias.step].append(use)
        return found

    # Which layer holds a variable.

    def _choose(self, variable: int, uses: Sequence[Use]) -> None:
        """Choose the layer that does all that is done with a variable, if one does."""
        made = [self._layer_for(use) for use in uses]
        first = made[0]
        is_table = any(
            one is not None and one.class_name == "Embedding" for one in made
        )
        if is_table:
            first = next(
                one for one in made if one is not None and one.path != "kernel"
            )
        elif first is None or any(one != first for one in made):
            return
        bias = self._bias(variable, uses, first) if len(uses) == 1 and first else None
        weights = [(first.path, variable, uses[0].shape)]
        config = dict(first.config)
        if first.units is not None:
            config["use_bias"] = bias is not None
        if bias is not None:
            self._with_bias[uses[0].step] = bias
            weights.append(("bias", bias[1], (first.units or 0,)))
        dtype = self._dtype(variable, uses[0].is_cast)
        config |= self.owner.config(dtype, variable)
        part = Part(
            self.owner.label(variable), first.class_name, config, tuple(weights)
        )
        self._layers[variable] = first, part

    def _dtype(self, variable: int, is_cast: bool) -> Any:
        """Return the policy of a layer that holds a variable."""
        own = str(self.owner.variables[variable].dtype)
        if self.owner.mixed is None:
            same = policies.dtypes_of(self.owner.dtype)[1] == own
            return self.owner.dtype if same else own
        return self.owner.dtype if is_cast else own

    def _layer_for(self, use: Use) -> Made | None:
        step = self.old[use.step]
        if not isinstance(step, OpStep):
            return None
        if step.op == "GatherV2" and not _is_zero(step.inputs[2]):
            return None  # an Embedding looks up along the first axis
        made = made_layers.layer_for(step, use.position, use.shape)
        if made is None:
            return None
        value = step.inputs[made.tensor]
        is_weight = self._alias(value, self._aliases) is not None
        is_index = made.class_name == "Embedding"
        return (
            None if is_weight or (isinstance(value, Known) and not is_index) else made
        )

    def _bias(
        self, variable: int, uses: Sequence[Use], made: Made
    ) -> tuple[int, int] | None:
        """Return the addition that follows, and the variable that it adds, or None."""
        users = self._users[Result(self._end(uses[0].step))]
        if made.units is None or len(users) != 1 or users[0] < 0:
            return None
        step = self.old[users[0]]
        if not isinstance(step, OpStep) or step.op not in ADDITIONS:
            return None
        others = [self._alias(value, self._aliases) for value in step.inputs]
        for alias in filter(None, others):
            is_alone = len(self._uses[alias.step]) == 1
            trained = [n in self.owner.trainable for n in (variable, alias.step)]
            fits = alias.shape == (made.units,) and trained[0] == trained[1]
            is_last = made.config.get("data_format") != "channels_first"
            if is_alone and fits and is_last and alias.is_cast == uses[0].is_cast:
                return users[0], alias.step
        return None

    def _end(self, number: int) -> int:
        """Return the step whose result is that of the layer that does a step."""
        flat = self._flattened(number)
        return number if flat is None else flat[1]

    def _flattened(self, number: int) -> tuple[Value, int] | None:
        """Return what `_new_flattened` does, found once."""
        if number not in self._flat:
            self._flat[number] = self._new_flattened(number)
        return self._flat[number]

    def _new_flattened(self, number: int) -> tuple[Value, int] | None:
        """Return `(tensor, last step)` of a product along the last axis, or None.

        `tf.tensordot` and `K.dot` reshape a tensor to a matrix, multiply it, and give
        the product the sizes that the tensor had. A Dense does all of that.
        """
        step, users = self.old[number], self._users[Result(number)]
        if not isinstance(step, OpStep) or step.op != "MatMul" or len(users) != 1:
            return None
        last, before = self._op(Result(users[0])), self._op(step.inputs[0])
        if last is None or before is None:
            return None
        if (last.op, before.op) != ("Reshape", "Reshape"):
            return None
        tensor = before.inputs[0]
        transposed = self._op(tensor)
        if transposed is not None and transposed.op == "Transpose":
            order = constant(transposed.inputs[1])
            if order is None or order.tolist() != [*range(order.size)]:
                return None
            tensor = transposed.inputs[0]
        is_same = self._has_sizes_of(last.inputs[1], {tensor, before.inputs[0]})
        return (tensor, users[0]) if is_same else None

    def _op(self, value: Value) -> OpStep | None:
        is_step = isinstance(value, Result) and value.step >= 0
        step = self.old[value.step] if is_step else None  # type: ignore[union-attr]
        return step if isinstance(step, OpStep) else None

    def _has_sizes_of(self, value: Value, tensors: set[Value]) -> bool:
        """Return whether sizes are computed from the shape of one of some tensors."""
        waiting, seen = [value], {value}
        while waiting and len(seen) < MAX_SIZES:
            step = self._op(waiting.pop())
            if step is None:
                continue
            if step.op == "Shape" and step.inputs[0] in tensors:
                return True
            new = [one for one in step.inputs if one not in seen]
            seen.update(new)
            waiting += new
        return False

    # The new steps.

    def add(self, step: Step) -> Result:
        """Add a step; return its first result."""
        self.steps.append(step)
        return Result(len(self.steps) - 1)

    def _rewrite(self, number: int, step: Step) -> None:
        if Result(number) in self._aliases and not self._is_taken(number):
            return
        if isinstance(step, CallStep):
            argument = mapped(self._tensor, step.argument)
            kwargs = mapped(self._tensor, dict(step.kwargs))
            self._made[Result(number)] = self.add(CallStep(step.part, argument, kwargs))
            return
        for use in self._with_layer(number):
            made, part = self._layers[use]
            flat = self._flattened(number)
            taken = step.inputs[made.tensor] if flat is None else flat[0]
            found = self.add(CallStep(part, self._tensor(taken)))
            self._made[Result(number)] = self._made[Result(self._end(number))] = found
            if number in self._with_bias:
                self._made[Result(self._with_bias[number][0])] = found
            return
        if step.op == "Cast" and self._to_compute(step):
            self._made[Result(number)] = self._followed(step)
            return
        inputs = tuple(map(self._value, step.inputs))
        new = self.add(OpStep(step.name, step.op, step.attributes, inputs))
        self._made[Result(number)] = new
        if step.op in SIZES or all(map(self._is_static, inputs)):
            self._static.add(new.step)

    def _is_taken(self, number: int) -> bool:
        """Return whether a variable that was cast is taken as a tensor."""
        waiting = [number]
        while waiting:
            for user in self._users[Result(waiting.pop())]:
                if Result(user) in self._aliases:
                    waiting.append(user)
                elif not any(self._with_layer(user)):
                    return True
        return False

    def _with_layer(self, number: int) -> list[int]:
        """Return the variable whose layer does what a step does, in a list."""
        if number < 0 or not isinstance(self.old[number], OpStep):
            return []
        taken = (self._alias(v, self._aliases) for v in inputs_of(self.old[number]))
        return [
            alias.step
            for alias in taken
            if alias is not None
            and alias.step in self._layers
            and self._does(number, alias.step)
        ]

    def _does(self, number: int, variable: int) -> bool:
        uses = [use for use in self._uses[variable] if use.step == number]
        return any(self._layer_for(use) == self._layers[variable][0] for use in uses)

    def _followed(self, step: OpStep) -> Value:
        """Return a tensor in the compute dtype of the layer's policy."""
        value = self._tensor(step.inputs[0])
        if name_of_dtype(step.attributes.get("SrcT")) not in FLOATS:
            variable = policies.variable_dtype(self.owner.dtype)
            value = self.add(OpStep(step.name, "Cast", {"DstT": variable}, (value,)))
        return self._cast(step.name, value)

    def _cast(self, name: str, value: Value) -> Value:
        part = Part(name, "Identity", self.owner.config(self.owner.dtype))
        return self.add(CallStep(part, value))

    def _is_static(self, value: Value) -> bool:
        """Return whether a value may be no tensor when the model is built."""
        is_size = isinstance(value, Result) and value.step in self._static
        return is_size or isinstance(value, Known)

    def _value(self, value: Value) -> Value:
        """Return what an op takes for a value."""
        if isinstance(value, Held):
            return self._weight(value.variable)
        if isinstance(value, Result):
            first = self._made[Result(value.step)]
            if value.position and isinstance(first, Result):
                return Result(first.step, value.position)
            return first
        return self._made.get(value, value)

    def _tensor(self, value: Value) -> Value:
        """Return what a layer takes for a value: a tensor of the model."""
        found = self._value(value)
        if self._is_static(found):
            return self.add(OpStep("tensor", "_Tensor", {}, (found, self._anchor())))
        return found

    def _output(self, value: Value) -> Value:
        found = self._tensor(value)
        if isinstance(found, Argument):  # no input of a Functional is its output
            part = Part("identity", "Identity", self.owner.config(self.owner.dtype))
            return self.add(CallStep(part, found))
        return found

    def _anchor(self) -> Value:
        if self._zero is None:
            self._zero = self.add(OpStep("zero", "_Zero", {}, (Argument(0),)))
        return self._zero

    def _weight(self, variable: int) -> Value:
        """Return the value of a variable, by a layer that holds it."""
        if variable not in self._held:
            self._held[variable] = self._new_weight(variable)
        return self._held[variable]

    def _new_weight(self, variable: int) -> Value:
        weight = self.owner.variables[variable]
        name, dtype = self.owner.label(variable), str(weight.dtype)
        if dtype not in FLOATS:
            return Known(weight.read())
        if variable in self._layers:  # an Embedding
            _, part = self._layers[variable]
            every = Known(np.arange(weight.shape[0], dtype="int32"))
            return self.add(CallStep(part, self._tensor(every)))
        asked = {"shape": weight.shape, "dtype": dtype}
        ask = self.add(OpStep(f"{name}_ask", "_AskForWeight", asked, (self._anchor(),)))
        config = self.owner.config(dtype, variable)
        part = Part(name, "PReLU", config, (("alpha", variable, None),))
        held = self.add(CallStep(part, ask))
        return self.add(OpStep(f"{name}_take", "_TakeWeight", {}, (held,)))


def _is_zero(value: Value) -> bool:
    return isinstance(value, Known) and np.ndim(value.value) == 0 and value.value == 0


def _changes_nothing(step: OpStep, shape: tuple[int, ...]) -> bool:
    """Return whether a step transposes or reshapes a variable to what it is."""
    wanted = constant(step.inputs[1]) if len(step.inputs) == 2 else None
    if wanted is None or wanted.dtype.kind not in "iO" or wanted.ndim != 1:
        return False
    values: list[int] = wanted.tolist()
    if step.op == "Transpose":
        return values == [*range(len(shape))]
    known = all(n in (-1, size) for n, size in zip(values, shape, strict=False))
    is_same = len(values) == len(shape) and values.count(-1) <= 1 and known
    return step.op == "Reshape" and is_same


def without_dead(steps: Sequence[Step], outputs: Nest) -> tuple[list[Step], Nest]:
    """Return the steps that the outputs need, and the outputs in their numbers."""
    wanted: set[int] = set()
    mapped(lambda v: wanted.add(v.step) if isinstance(v, Result) else None, outputs)
    for number in reversed(range(len(steps))):
        if number in wanted:
            taken = inputs_of(steps[number])
            wanted |= {value.step for value in taken if isinstance(value, Result)}
    numbers = {old: new for new, old in enumerate(sorted(wanted))}

    def renumbered(value: Value) -> Value:
        if isinstance(value, Result):
            return Result(numbers[value.step], value.position)
        return value

    kept: list[Step] = []
    for number in sorted(wanted):
        step = steps[number]
        if isinstance(step, OpStep):
            inputs = tuple(map(renumbered, step.inputs))
            kept.append(dataclasses.replace(step, inputs=inputs))
        else:
            argument = mapped(renumbered, step.argument)
            kwargs = mapped(renumbered, dict(step.kwargs))
            kept.append(CallStep(step.part, argument, kwargs))
    return kept, mapped(renumbered, outputs)
