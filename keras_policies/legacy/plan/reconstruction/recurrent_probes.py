"""Runs the first rounds of a While on random values, and finds the cell that fits.

`Loop` says what the While takes. The formula of a cell has to give the states and the
outputs of each round, by a proof (see `proofs`).
"""

import dataclasses
import enum
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_policies._common.types import Config
from keras_policies.legacy.base import walks
from keras_policies.legacy.base.traced_functions import (
    PASSING,
    Function,
    Node,
    TensorSpec,
    TracedFunctions,
)
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import budget, limits
from keras_policies.legacy.plan.reconstruction import ir, recurrent_cells
from keras_policies.legacy.plan.reconstruction.proofs import Prober, is_close
from keras_policies.legacy.plan.reconstruction.recurrent_cells import (
    Cell,
    Products,
    Settings,
)

SWAP = [1, 0, 2]  # the axes of batch and time
TIME = [0]  # the axis, once it is the first


@dataclasses.dataclass(frozen=True)
class Loop:
    """A While, or an op in its place, and its inputs."""

    node: Node
    values: Sequence[ir.Value]
    traced: TracedFunctions
    steps: ir.Steps
    specs: Sequence[TensorSpec]

    @functools.cached_property
    def stays(self) -> list[bool]:
        """list of bool, whether each value is the same after every round."""
        body = self.traced.functions[str(self.node.attributes.get("body"))]
        ends = zip(body.arguments, body.outputs, strict=True)
        return [first(body, end.node) == name for name, end in ends]

    def op(self, value: ir.Value) -> ir.OpStep | None:
        """Return the op that makes a value, or None."""
        return ir.op_of(value, self.steps)

    def weights(self) -> list[ir.VariableRef]:
        """Return the variables that the values which stay are made of."""
        return self.variables(itertools.compress(self.values, self.stays))

    def variables(self, values: Iterable[ir.Value]) -> list[ir.VariableRef]:
        """Return the variables that some values are made of."""

        def before(value: ir.Value) -> Sequence[ir.Value]:
            step = self.op(value)
            is_same = step is None or step.op == "Shape" or self.is_zero(value)
            return () if step is None or is_same else step.inputs

        every = walks.reachable(values, before, nearest_first=True)
        some = itertools.islice(every, limits.SIZE_STEPS)
        return [value for value in some if isinstance(value, ir.VariableRef)]

    def array(
        self,
        value: ir.Value,
        arrays: dict[ir.Value, Array],
        prober: Prober,
        depth: int = limits.SIZE_STEPS,
    ) -> Array:
        """Evaluate a value from those in `arrays`; add intermediate ones to them."""
        if isinstance(value, ir.Constant):
            return np.asarray(prober.constant(value.value))
        if value not in arrays:
            step = self.op(value)
            if step is None or depth == 0 or not isinstance(value, ir.StepOutput):
                raise ValueError("it depends on more than is known")
            inputs = [self.array(x, arrays, prober, depth - 1) for x in step.inputs]
            results = prober.op(Node(step.name, step.op, (), step.attributes), inputs)
            arrays[value] = np.asarray(results[value.position])
        return arrays[value]

    def is_zero(self, value: ir.Value) -> bool:
        """Return whether a value is a matrix of zeros."""
        array, step = ir.constant(value), self.op(value)
        if array is not None:
            return array.ndim == 2 and not array.any()
        full = ir.constant(step.inputs[1]) if ir.is_op(step, "Fill") else None
        return ir.is_op(step, "ZerosLike") or (full is not None and not full.any())

    def origin(self, position: int) -> "Origin":
        """Return the tensor that the rows at a position come from."""
        rows = self.values[position]
        value = rows.tensor if isinstance(rows, ir.UnstackedTensor) else rows
        step = self.op(value)
        is_reversed = ir.is_op(step, "ReverseV2") and ir.items(step.inputs[1]) == TIME
        if step is not None and is_reversed:
            value = step.inputs[0]
            step = self.op(value)
        is_swapped = ir.is_op(step, "Transpose") and ir.items(step.inputs[1]) == SWAP
        tensor = step.inputs[0] if step is not None and is_swapped else None
        return Origin(value, tensor, is_reversed)

    def mask(self, position: int) -> ir.Value | None:
        """Return the mask, by examples and times, whose rows are at a position."""
        tensor = self.origin(position).batch_major
        step = None if tensor is None else self.op(tensor)
        axis = ir.constant(step.inputs[1]) if ir.is_op(step, "ExpandDims") else None
        return step.inputs[0] if step is not None and axis in (-1, 2) else None


class LayerOutput(enum.Enum):
    """A result of a loop, as an output of the recurrent layer that the loop is."""

    ROWS = enum.auto()  # the list of all outputs
    LAST = enum.auto()  # the last output
    LAST_ROW = enum.auto()  # a list of that
    STATE_0 = enum.auto()
    STATE_1 = enum.auto()


STATES = LayerOutput.STATE_0, LayerOutput.STATE_1


class Origin(NamedTuple):
    """The tensor whose rows a loop takes."""

    time_major: ir.Value  # before it was reversed
    # The same with the axes of batch and time swapped, or None.
    batch_major: ir.Value | None
    is_reversed: bool


def first(function: Function, name: str) -> str:
    """Return the argument or the node that a node passes on."""
    for _ in range(limits.SIZE_STEPS):
        node = function.nodes.get(name)
        if node is None or node.op not in PASSING or len(node.inputs) != 1:
            break
        name = node.inputs[0].node
    return name


ROLES = "kernel", "recurrent_kernel", "bias"
SEED = 0
EXAMPLES, LENGTH, ROUNDS = 16, 3, 2
LONG = 10**6 + 3  # a sequence that no limit on rounds allows by accident
FORMULA = 100  # about microseconds that numpy takes for small arrays


class Probe:
    """The first rounds of a loop on random values.

    `x` and `mask` are positions in the loop: of the rows, and of those of the mask.
    """

    def __init__(
        self, loop: Loop, x: int, mask: int | None, roles: Mapping[str, ir.VariableRef]
    ) -> None:
        self.loop, self.x, self.mask, self.roles = loop, x, mask, roles
        self._random = np.random.default_rng(SEED)
        self._prober = Prober(loop.traced)
        shapes = {v: loop.traced.variables[v.variable].shape for v in roles.values()}
        # The array that stands for each value in the probe.
        self._arrays: dict[ir.Value, Array] = {
            v: self._draw(*shape, scale=1 / math.sqrt(shape[0] or 1))
            for v, shape in shapes.items()
        }
        self.weights = {role: self._arrays[v] for role, v in roles.items()}
        inputs, self.units = (self.weights[role].shape[0] for role in ROLES[:2])
        constants = [n for n in map(ir.constant, loop.values) if n is not None]
        numbers = [int(n) for n in constants if n.ndim == 0 and n.dtype.kind == "i"]
        # The counters start with 0, and no limit is -1.
        sizes = [n for n in numbers if n > 0]
        self.length, self._has_length = min(sizes, default=LENGTH), bool(sizes)
        count = min(ROUNDS, self.length)
        self.rows = [self._draw(EXAMPLES, inputs) for _ in range(count)]
        self.masks = [self._draw(EXAMPLES, 1) > 0 for _ in self.rows]
        self._arrays |= self._shapes(self.length)
        self.states: list[int] = []
        self.rounds = [[*map(self._start, range(len(loop.values)))]]
        for _ in self.rows:
            self.rounds.append(self._call("body", self.rounds[-1]))

    def _draw(self, *shape: int, scale: float = 1) -> Array:
        budget.spend(float(np.prod(np.asarray(shape, "float64"))), 8)
        array: Array = self._random.standard_normal(shape) * scale
        return np.asarray(self._prober.opened(array))

    def _shapes(self, length: int) -> dict[ir.Value, Array]:
        """Return arrays for tensors that matter by their shape only."""
        origin, inputs = self.loop.origin(self.x), len(self.weights[ROLES[0]])
        rows = np.broadcast_to(np.zeros(()), (length, EXAMPLES, inputs))
        arrays: dict[ir.Value, Array] = {origin.time_major: rows}
        shape = ir.shape_of(origin.time_major, self.loop.steps, self.loop.specs)
        if shape is not None and self._has_length and shape[0] != self.length:
            raise ValueError("it goes over some of the rows")
        if origin.batch_major is not None:
            arrays[origin.batch_major] = np.swapaxes(rows, 0, 1)
        reversed_rows = self.loop.values[self.x]
        if isinstance(reversed_rows, ir.UnstackedTensor):
            arrays[reversed_rows.tensor] = rows
        return arrays

    def _start(self, position: int) -> Any:
        loop, value = self.loop, self.loop.values[position]
        if position in (self.x, self.mask):
            rows = self.rows if position == self.x else self.masks
            return [*rows, *([rows[-1]] * (self.length - len(rows)))]
        if isinstance(value, ir.TensorList):
            return [None] * len(value.values)
        step, array = loop.op(value), ir.constant(value)
        if ir.is_op(step, "TensorListReserve"):
            return [None] * min(int(self._array(step.inputs[1])), limits.LIST_ITEMS)
        if not loop.stays[position] and (array is None or array.ndim > 0):
            self.states.append(position)
            return self._draw(EXAMPLES, self.units)
        if loop.is_zero(value):
            return np.zeros((EXAMPLES, self.units))
        return self._array(value)

    def _array(self, value: ir.Value) -> Array:
        return self.loop.array(value, self._arrays, self._prober)

    def _call(self, name: str, values: Sequence[Any]) -> list[Any]:
        return self._prober.call(str(self.loop.node.attributes.get(name)), values)

    def goes_over_all_rows(self) -> bool:
        """Return whether the rounds are counted, and end after the last row."""
        first = self.rounds[0]
        counters = [i for i in self.changing() if not isinstance(first[i], list)]
        numbers = [[int(values[i]) for i in counters] for values in self.rounds]
        is_counted = all({*row} == {n} for n, row in enumerate(numbers))
        lengths = (self.length,) if self._has_length else (self.length, LONG)
        return is_counted and all(self._ends_at(n, counters) for n in lengths)

    def _ends_at(self, length: int, counters: Sequence[int]) -> bool:
        """Return whether there are as many rounds as rows in sequences of a length."""
        arrays, values = self._shapes(length), [*self.rounds[0]]
        for i, value in enumerate(values):
            if self.loop.stays[i] and np.asarray(value).dtype.kind == "i":
                values[i] = self.loop.array(self.loop.values[i], arrays, self._prober)
        ends = []
        for n in (0, length - 1, length):
            for i in counters:
                values[i] = np.int32(n)
            ends.append(bool(np.all(self._call("cond", values)[0])))
        return ends == [True, True, False]

    def changing(self) -> Iterator[int]:
        """Yield the positions of the values that rounds change, except states."""
        stays = self.loop.stays
        return (i for i in range(len(stays)) if not stays[i] and i not in self.states)

    def count(self) -> ir.Value:
        """Return the value that is the number of rows."""
        first = self.rounds[0]
        stay = (i for i, stays in enumerate(self.loop.stays) if stays)
        numbers = (i for i in stay if isinstance(first[i], np.ndarray | np.number))
        sizes = (i for i in numbers if first[i].ndim == 0 and first[i] == self.length)
        return self.loop.values[next(sizes)]

    def layers(self) -> Iterator["Layer"]:
        """Yield the layers whose states change like those of the loop."""
        kernel, recurrent = (self.weights[role] for role in ROLES[:2])
        cell = recurrent_cells.CELLS[kernel.shape[1] // self.units]
        if len(self.states) - cell.states > (self.mask is not None):
            return
        inner = [x @ kernel for x in self.rows]
        for states in itertools.permutations(self.states, cell.states):
            old = (values[states[0]] for values in self.rounds)
            pairs = zip(inner, old, strict=False)
            products = [Products(x, h @ recurrent) for x, h in pairs]
            bias, bends = self.weights.get("bias"), self._prober.bends
            for settings in recurrent_cells.settings(cell, bias, bends):
                budget.work(FORMULA + budget.NUMBER * sum(x.size for x in inner))
                outputs = self._outputs(cell, states, settings, products)
                if outputs is not None:
                    config = settings.config(cell.class_name)
                    yield Layer(self, cell.class_name, config, states, outputs)

    def _outputs(
        self,
        cell: Cell,
        states: Sequence[int],
        settings: Settings,
        products: Sequence[Products],
    ) -> list[Array] | None:
        """Return the output of each round if a cell explains the states, else None."""
        outputs = []
        for number, product in enumerate(products):
            old, new = ([self.rounds[number + i][at] for at in states] for i in (0, 1))
            after = cell.formula(product, old, self.weights, settings)
            outputs.append(after[0])
            pairs = zip(after, old, strict=True)
            expected = [self.masked(number, *pair) for pair in pairs]
            if not all(map(is_close, new, expected)):
                return None
        return outputs

    def masked(self, number: int, after: Array, before: Array | float) -> Array:
        """Return the new value of a round where the mask is True, else the old one."""
        if self.mask is None:
            return after
        return np.where(self.masks[number], after, before)


@dataclasses.dataclass(frozen=True)
class Layer:
    """A layer that explains the states of a probe."""

    probe: Probe
    class_name: str
    config: Config
    states: Sequence[int]  # their positions in the loop
    outputs: Sequence[Array]  # of each round, where there is no mask

    def ends(self, *, zeros: bool) -> list[ir.Value | LayerOutput] | None:
        """Return the results of the loop: values, or outputs of the layer.

        Return None if a result is neither. `zeros` is whether the output where the mask
        is False is zero, not the last one.
        """
        probe = self.probe
        last = [i for i in probe.states if i not in self.states]
        if not (zeros or last or probe.mask is None):
            return None
        outputs = []
        for n, output in enumerate(self.outputs):
            fill = 0.0 if zeros or not last else probe.rounds[n][last[0]]
            outputs.append(probe.masked(n, output, fill))
        ends = [self._end(i, last, outputs) for i in range(len(probe.loop.values))]
        results = [end for end in ends if end is not None]
        return results if len(results) == len(ends) else None

    def _end(
        self, position: int, last: Sequence[int], outputs: Sequence[Array]
    ) -> ir.Value | LayerOutput | None:
        loop, rounds = self.probe.loop, self.probe.rounds
        value, after = loop.values[position], [values[position] for values in rounds]
        if loop.stays[position]:
            return value
        if position in self.states:
            return STATES[self.states.index(position)]
        if position in last:
            is_last = loop.is_zero(value) and _all_close(after[1:], outputs)
            return LayerOutput.LAST if is_last else None
        if not isinstance(after[-1], list):
            return self.probe.count()
        if _all_close(after[-1], outputs):
            return LayerOutput.ROWS
        is_last = _all_close(after[-1], outputs[-1:])
        return LayerOutput.LAST_ROW if is_last else None


def _all_close(actual: Sequence[Array | None], expected: Sequence[Array]) -> bool:
    """Return whether the first items are close to the expected, the others None."""
    items = [item for item in actual if item is not None]
    if len(items) != len(expected) or any(x is None for x in actual[: len(items)]):
        return False
    return all(map(is_close, items, expected))
