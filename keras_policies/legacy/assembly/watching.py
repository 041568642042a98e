"""Interprets a graph, and watches where it bends and what rounding does to it.

x -> Cast(bool) -> ...          x is 0 or 1
x -> GatherV2(table of 7)       x is 0 to 6
x -> Minimum(., 20)             examples have to be below and above 20
"""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_policies._common import comparing
from keras_policies.legacy.base.traced_functions import (
    Node,
    TracedFunctions,
    VariableRef,
)
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.plan.reconstruction import reference
from keras_policies.legacy.plan.reconstruction.reference import Interpreter, Outputs

# Ops that move numbers, but do not change them.
MOVING = {
    *("BroadcastTo", "Cast", "ExpandDims", "Pack", "Reshape", "Slice", "Split"),
    *("SplitV", "Squeeze", "StridedSlice", "Tile", "Transpose", "Unpack"),
}
COMPARING = {
    *("Equal", "Greater", "GreaterEqual", "Less", "LessEqual", "NotEqual"),
}
# Ops that bend where an input reaches one of the others.
BENDING = {*COMPARING, "ClipByValue", "Maximum", "Minimum"}
# The same, at constants of the op.
AT_CONSTANTS = {
    "Relu6": (0.0, 6.0),
    **dict.fromkeys(("Abs", "LeakyRelu", "Relu", "Sign"), (0.0,)),
}
ADDING = {"Add", "AddV2", "Sub"}
LARGE = 1e4  # numbers that masks are multiplied by
BITS = {"float16": 10, "bfloat16": 7}  # of fractions; 23 of other dtypes


@dataclasses.dataclass
class Uses:
    """What a graph does with the numbers of one input."""

    rows: set[int] = dataclasses.field(default_factory=set)  # of tables it indexes
    points: set[float] = dataclasses.field(default_factory=set)  # it is compared with
    is_cast_to_bool: bool = False

    @property
    def may_be_mask(self) -> bool:
        """bool, whether only 0 and 1 may be meant."""
        compared = bool(self.points) and self.points <= {*comparing.MASK}
        return not self.rows and (compared or self.is_cast_to_bool)

    @property
    def range(self) -> tuple[int, int] | None:
        """The lowest and the highest integer; None if the graph does not say."""
        return (0, min(self.rows) - 1) if self.rows else None


class Reach(NamedTuple):
    """The numbers that a node was given: their ends, without and with their signs."""

    least: float
    most: float
    low: float
    high: float
    is_whole: bool  # whether they are integers

    def joined(self, other: "Reach") -> "Reach":
        least, most = min(self.least, other.least), max(self.most, other.most)
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Reach(least, most, low, high, self.is_whole)

    def passes(self, constant: float) -> bool:
        """Return whether numbers are on both sides; integers may end at a constant."""
        if self.is_whole:
            return self.low <= constant <= self.high and self.low < self.high
        return self.low < constant < self.high


class Watching(Interpreter):
    """An interpreter that notes, in `uses`, what a graph does with its inputs.

    `bends` has the numbers that each bending node was given, by the names of the
    function and the node, and the constant where it bends.
    """

    def __init__(self, traced: TracedFunctions) -> None:
        super().__init__(traced)
        self.uses: dict[int, Uses] = defaultdict(Uses)
        self.bends: dict[tuple[str, str, float], Reach] = {}
        self.leaks: set[int] = set()  # examples of the last run whose masks do not hold
        self._origins: dict[int, tuple[Any, int]] = {}  # by id of an array
        self._offsets: dict[int, tuple[Any, float]] = {}  # of masks: 0, or this number

    def run(self, trace: Any, inputs: Sequence[Array], count: int | None = None) -> Any:
        self._origins.clear()
        self._offsets.clear()
        self.leaks.clear()
        self._origins.update((id(x), (x, n)) for n, x in enumerate(inputs))
        return super().run(trace, inputs, count)

    def op(self, node: Node, inputs: Sequence[Any]) -> Outputs:
        arrays = [*map(self.array, inputs)]
        origins = [self._origins.get(id(x)) for x in inputs]
        origin = next(filter(None, origins), None)
        if bends(node):
            self._note_bend(node, arrays)
        if origin is not None:
            self._note_use(node, arrays, origins)
        outputs = super().op(node, inputs)
        if origin is not None and (node.op in MOVING or _is_times_one(node, inputs)):
            each = outputs.values() if isinstance(outputs, dict) else outputs
            self._origins.update((id(x), (x, origin[1])) for x in each)
        self._note_mask(node, arrays, outputs)
        return outputs

    def _note_mask(self, node: Node, inputs: Sequence[Any], outputs: Outputs) -> None:
        """Follow `scores + (1 - mask) * -1e9`: it masks no scores of such a size."""
        if node.op == "Mul" and (
            large := [abs(x) for x in _scalars(inputs) if abs(x) >= LARGE]
        ):
            mask = max(inputs, key=np.size)
            if np.all((mask == 0) | (mask == 1)):
                self._offsets[id(outputs[0])] = outputs[0], large[0]
        found = [self._offsets.get(id(x)) for x in inputs] if self._offsets else []
        offset = next(filter(None, found), None)
        if offset and node.op in MOVING:
            self._offsets[id(outputs[0])] = outputs[0], offset[1]
        elif offset and node.op in ADDING:
            scores = inputs[found.index(None)] if None in found else inputs[0]
            rows = np.abs(np.reshape(scores, (len(np.atleast_1d(scores)), -1))).max(1)
            self.leaks |= {*np.flatnonzero(rows >= offset[1] / 4).tolist()}

    def _note_bend(self, node: Node, inputs: Sequence[Array]) -> None:
        numbers = max(inputs, key=np.size)
        if np.size(numbers) < 2 or not _is_number(numbers):
            return
        finite = numbers[np.isfinite(numbers)].astype("float64")
        if finite.size == 0:
            return
        sizes, is_whole = np.abs(finite), numbers.dtype.kind in "iu"
        least, most = float(sizes.min()), float(sizes.max())
        low, high = float(finite.min()), float(finite.max())
        reach = Reach(least, most, low, high, is_whole)
        constants = [*AT_CONSTANTS.get(node.op, ()), *_scalars(inputs)]
        for constant in filter(math.isfinite, constants):
            key = self.name, node.name, constant
            self.bends[key] = self.bends.get(key, reach).joined(reach)

    def _note_use(
        self, node: Node, inputs: Sequence[Any], origins: Sequence[Any]
    ) -> None:
        if node.op in reference.INDEX_BOUNDS:
            indices, lengths = reference.INDEX_BOUNDS[node.op](*inputs)
            for value, origin in zip(inputs, origins, strict=True):
                if origin and value is indices:
                    self.uses[origin[1]].rows.add(max(1, int(np.min(lengths))))
        if node.op == "OneHot" and origins[0]:
            self.uses[origins[0][1]].rows.add(max(1, int(inputs[1].item())))
        if node.op == "Cast" and node.attributes.get("DstT") == "bool":
            self.uses[origins[0][1]].is_cast_to_bool = True
        if node.op in BENDING or (node.op == "Sub" and 1.0 in _scalars(inputs)):
            others = [x for x, o in zip(inputs, origins, strict=True) if not o]
            self.uses[next(filter(None, origins))[1]].points |= {*_scalars(others)}

    def scales(self) -> Iterator[float]:
        """Yield scales of inputs at which nodes reach a constant that they did not.

        Most nodes are given about `scale` times as much as at scale 1.
        """
        for (*_, constant), reach in self.bends.items():
            size = abs(constant)
            if size > reach.most > 0:
                yield 2 * comparing.SCALES[-1] * size / reach.most
            elif 0 < size < reach.least:
                yield size / reach.least / 2

    @property
    def is_partial(self) -> bool:
        """bool, whether a node was given numbers on one side of its constant alone."""
        return not all(reach.passes(key[-1]) for key, reach in self.bends.items())


def bends(node: Node) -> bool:
    """Return whether a node bends where its input reaches a constant."""
    return node.op in BENDING or node.op in AT_CONSTANTS


def _is_number(value: Any) -> bool:
    return getattr(value, "dtype", np.dtype("O")).kind in "fiuV"


def _scalars(values: Sequence[Any]) -> list[float]:
    """Return the numbers that are alone in an array."""
    return [float(x.item()) for x in values if _is_number(x) and np.size(x) == 1]


def _is_times_one(node: Node, inputs: Sequence[Any]) -> bool:
    """Return whether a product only copies a mask: it has a factor of ones."""
    return node.op == "Mul" and any(
        not isinstance(x, VariableRef) and _is_number(x) and np.all(x == 1)
        for x in inputs
    )


class Rounding(Interpreter):
    """An interpreter that changes each number by about as much as rounding does.

    What several runs have in common is what the graph computes; where they differ, it
    is rounding (https://en.wikipedia.org/wiki/Monte_Carlo_arithmetic). Small whole
    numbers are exact: masks, positions, counts.
    """

    def __init__(self, traced: TracedFunctions, seed: int) -> None:
        super().__init__(traced)
        self._random = np.random.default_rng(seed)
        self.infinite: set[int] = set()  # examples with an infinite number
        # By id: constants, and what is computed of these and small whole numbers alone.
        self._exact: dict[int, Any] = {}

    def array(self, value: Any) -> Any:
        array = super().array(value)
        return self._rounded(array) if isinstance(value, VariableRef) else array

    def constant(self, value: Any) -> Any:
        self._exact[id(value)] = value
        return super().constant(value)

    def op(self, node: Node, inputs: Sequence[Any]) -> Outputs:
        outputs = super().op(node, inputs)
        if inputs and all(map(self._is_exact, inputs)):
            each = outputs.values() if isinstance(outputs, dict) else outputs
            self._exact.update((id(x), x) for x in each)
            return outputs
        if node.op in MOVING and node.attributes.get("DstT") not in BITS:
            return outputs
        if isinstance(outputs, dict):
            return {at: self._rounded(x) for at, x in outputs.items()}
        is_sum = node.op in ADDING and outputs[0].dtype.kind in "fV"
        most = self._smaller(inputs) if is_sum else math.inf
        return [self._rounded(x, most) for x in outputs]

    def _smaller(self, inputs: Sequence[Any]) -> Array:
        """Return the smaller summands: no rounding of a sum is larger.

        So `scores - 1e9` is the same number for all small scores.
        """
        one, other = (np.abs(np.asarray(self.array(x), "float64")) for x in inputs)
        smaller: Array = np.minimum(one, other)
        return smaller

    def _is_exact(self, value: Any) -> bool:
        if id(value) in self._exact or not isinstance(value, np.ndarray | np.generic):
            return id(value) in self._exact
        if value.dtype.kind not in "fV":
            return value.dtype.kind in "iub"
        is_small = np.abs(value) < 2 ** (BITS.get(value.dtype.name, 23) / 2)
        return bool(np.all(is_small & (value == np.rint(value))))

    def _rounded(self, value: Any, most: Any = math.inf) -> Any:
        """Return numbers that are changed, each by `most` at most."""
        if (
            not isinstance(value, np.ndarray | np.generic)
            or value.dtype.kind not in "fV"
        ):
            return value
        bits = BITS.get(value.dtype.name, 23)
        least = comparing.rounding_of_products() if bits == 23 else 0.0
        share = max(2.0 ** -(bits + 1), least)
        numbers = np.asarray(value, "float64")
        changes = self._random.uniform(-share, share, numbers.shape)
        is_exact = (numbers == np.rint(numbers)) & (np.abs(numbers) < 2 ** (bits / 2))
        with np.errstate(all="ignore"):
            changes = np.clip(numbers * changes, -most, most)
            changed = np.where(is_exact, numbers, numbers + changes)
            result = changed.astype(value.dtype)
        if not np.all(np.isfinite(changed)) and changed.ndim:
            others = tuple(range(1, changed.ndim))
            rows = np.flatnonzero(~np.isfinite(changed).all(others))
            self.infinite.update(rows.tolist())
        return result
