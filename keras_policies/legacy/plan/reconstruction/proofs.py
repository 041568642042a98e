"""Runs functions on probes in such a way that agreement with a formula is a proof.

Two analytic functions that agree on an open set agree everywhere. So numbers prove that
a traced function is the formula of a stock layer if all ops on the way are analytic.
An op that bends is evaluated as another function, which is analytic and arbitrary, but
always the same; the formula calls it in the same places:

    a body      Maximum(Minimum(0.2 * x + 0.5, 1), 0)  ->  bend("Clip", 0, 1)(...)
    a formula   hard_sigmoid                           ->  bend("Clip", 0, 1)(...)

Any other op, such as a comparison, raises an error. What does not depend on the probe,
such as sizes and the number of a round, is computed as it is. All is float64, so that
neither rounding hides a difference, nor a constant is known by a few digits only.
"""

import math
import weakref
import zlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from keras_policies.legacy.base.traced_functions import (
    CALLS,
    ConcreteFunction,
    Node,
    TracedFunctions,
    VariableRef,
)
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.plan.reconstruction import idioms, own_ops
from keras_policies.legacy.plan.reconstruction.reference import (
    Interpreter,
    NotInterpretedError,
    Outputs,
    Positions,
)

TOLERANCE = 1e-9
FLOATS = "bfloat16", "float16", "float32"
# All others are not analytic. `BENDS` and clips have functions in their place.
ANALYTIC = {
    *("AccumulateNV2", "Add", "AddN", "AddV2", "Asinh", "Atan", "AvgPool"),
    *("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "BatchToSpaceND", "BiasAdd"),
    *("BiasAddV1", "BroadcastTo", "Cast", "ConcatV2", "Conv2D", "Conv2DBackpropInput"),
    *("Conv3D", "Cos", "Cosh", "Cumsum", "DepthToSpace", "DepthwiseConv2dNative"),
    *("Diag", "DiagPart", "Div", "Einsum", "Erf", "Erfc", "Exp", "ExpandDims", "Expm1"),
    *("Fill", "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "Gather"),
    *("GatherNd", "GatherV2", "Inv", "L2Loss", "Log", "Log1p", "LogSoftmax", "MatMul"),
    *("MatrixDiag", "MatrixDiagV3", "Mean", "Mul", "Neg", "OnesLike", "Pack", "Pad"),
    *("PadV2", "Prod", "Range", "Rank", "RealDiv", "Reciprocal", "Reshape"),
    *("ReverseSequence", "ReverseV2", "Roll", "Rsqrt", "Select", "SelectV2", "Shape"),
    *("ShapeN", "Sigmoid", "Sin", "Sinh", "Size", "Slice", "Softmax", "Softplus"),
    *("SpaceToBatchND", "SpaceToDepth", "Split", "SplitV", "Sqrt", "Square"),
    *("SquaredDifference", "Squeeze", "StridedSlice", "Sub", "Sum", "Tanh", "Tile"),
    *("Transpose", "Unpack", "ZerosLike"),
    *own_ops.LISTS,
}
# Sums of elementwise functions: they have the same formula at each size.
OF_ANY_SIZE = {"Add", "AddN", "AddV2", "Cast", "L2Loss", "Mul", "Neg", "Square", "Sum"}


class NotProvenError(NotInterpretedError):
    """A function has an op for which numbers prove nothing."""


class Prober(Interpreter):
    """An interpreter in which all ops are analytic.

    `ops` are those that may compute with what depends on the probe. `stopped` are the
    values of StopGradient, in order: with None, that op is not analytic; it takes its
    values from a list, and adds those that are missing.
    """

    widened = dict.fromkeys(FLOATS, "float64")

    def __init__(
        self,
        traced: TracedFunctions,
        ops: Collection[str] = ANALYTIC,
        stopped: list[Array] | None = None,
    ) -> None:
        super().__init__(traced, is_wide=True)
        self.ops, self.stopped = ops, stopped
        self.bends: set[tuple[Any, ...]] = set()  # the arguments of `bend`
        self._count = [0]  # of values of StopGradient
        # Arrays that depend on the probe, by id; and results of `clip`.
        self._open: Any = weakref.WeakValueDictionary()
        self._clips: dict[int, tuple[Array, Array, float, float]] = {}

    def opened(self, value: Any) -> Any:
        """Return a value, as one that depends on the probe if it has numbers."""
        if isinstance(value, list):
            return [self.opened(item) for item in value]
        if getattr(value, "dtype", np.dtype(bool)).kind != "f":
            return value
        array = np.asarray(value)
        self._open[id(array)] = array
        return array

    def is_open(self, value: Any) -> bool:
        """Return whether a value depends on the probe."""
        if isinstance(value, list):
            return any(map(self.is_open, value))
        return value is not None and self._open.get(id(value)) is value

    def call(self, function: str, inputs: Sequence[Any]) -> list[Any]:
        return self.run(ConcreteFunction(function, (), (), ()), inputs)

    def array(self, value: Any) -> Any:
        array = super().array(value)
        return self.opened(array) if isinstance(value, VariableRef) else array

    def outputs(self, node: Node, inputs: Sequence[Any], needed: Positions) -> Outputs:
        is_own = bool(node.gradient) and node.op not in CALLS
        is_own = is_own and not idioms.is_swish(node, self.function.nodes)
        if is_own and any(map(self.is_open, inputs)):
            raise NotProvenError(f"{node.name!r} has a gradient of its own")
        return super().outputs(node, inputs, needed)

    def op(self, node: Node, inputs: Sequence[Any]) -> Outputs:
        inputs = [*map(self.array, inputs)]
        drops = node.op == idioms.DROPOUT and bool(node.attributes["rate"])
        if node.op in own_ops.MEANS or drops:
            raise NotProvenError(f"{node.name!r} ({node.op}) is random")
        if not any(map(self.is_open, inputs)):
            return super().op(node, inputs)
        bent = self._bent(node, inputs)
        if bent is not None:
            return [self.opened(bent)]
        if node.op not in self.ops or self._selects(node, inputs):
            reason = f"{node.name!r} ({node.op}) is not analytic"
            raise NotProvenError(reason)
        results = super().op(node, inputs)
        return [self.opened(results[i]) for i in range(len(results))]

    def _selects(self, node: Node, inputs: Sequence[Any]) -> bool:
        """Return whether an op turns what depends on the probe into a whole number."""
        target = node.attributes.get("DstT", "float32")
        return node.op == "Cast" and self._widened(target) != "float64"

    def _bent(self, node: Node, inputs: Sequence[Any]) -> Array | None:
        """Return what takes the place of an op that bends, or None for other ops."""
        if node.op == "StopGradient" and self.stopped is not None:
            number, self._count[0] = self._count[0], self._count[0] + 1
            self.stopped[number:] = self.stopped[number:] or inputs
            return np.array(self.stopped[number])
        if node.op in BENDS and len(inputs) == 1:
            return self.bent(inputs[0], node.op)
        if node.op not in CLIPS:
            return None
        x, *others = sorted(inputs, key=self.is_open, reverse=True)
        is_first = node.op != "ClipByValue" or x is inputs[0]
        if not is_first or any(map(self.is_open, others)):
            return None
        limits = _limits(node.op, x, others)
        return None if limits is None else self.clipped(x, *limits)

    def bent(self, x: Array, *key: Any) -> Array:
        """Return the function that takes the place of one that bends."""
        self.bends.add(key)
        return bend(*key)(x)

    def clipped(self, x: Array, low: float, high: float) -> Array:
        """Clip an array; two limits on the same array become one call."""
        if id(x) in self._clips:
            _, x, *before = self._clips[id(x)]
            low, high = (min(max(low, n), high) for n in before)
        result = np.asarray(self.bent(x, CLIP, low, high))
        self._clips[id(result)] = result, x, low, high
        return result


# Ops that bend, in formulas of stock layers. Others prove nothing.
BENDS = "Abs", "Elu", "Selu", "Softsign"
CLIP, CLIPS = "Clip", ("ClipByValue", "Maximum", "Minimum", "Relu", "Relu6")


def _limits(op: str, x: Array, others: Sequence[Array]) -> tuple[float, float] | None:
    """Return the limits to which an op clips `x`; None for other ops and limits."""
    if op in ("Relu", "Relu6"):
        return 0.0, 6.0 if op == "Relu6" else math.inf
    is_scalar = all(np.size(n) == 1 and np.ndim(n) <= x.ndim for n in others)
    numbers = [float(np.ravel(n)[0]) for n in others if is_scalar]
    if op == "ClipByValue" and len(numbers) == 2 and numbers[0] <= numbers[1]:
        return numbers[0], numbers[1]
    if op == "Maximum" and numbers:
        return numbers[0], math.inf
    return (-math.inf, numbers[0]) if op == "Minimum" and numbers else None


def bend(*key: Any) -> Callable[[Array], Array]:
    """Return an analytic function without symmetries, one for each key.

    It stands for the op that the key names, such as `"Clip"` with its limits.
    """
    random = np.random.default_rng(zlib.crc32(repr(key).encode()))
    a, b, c = random.uniform(0.3, 0.9, 3)
    return lambda x: np.sin(a * x + b) + c * x


def clip(low: float, high: float) -> Callable[[Array], Array]:
    """Return the function that stands for a clip with these limits."""
    return bend(CLIP, float(low), float(high))


def is_close(actual: Any, expected: Any, tolerance: float = TOLERANCE) -> bool:
    """Return whether arrays of one shape are equal, but for rounding in float64."""
    same = np.shape(actual) == np.shape(expected)
    return same and bool(np.allclose(actual, expected, tolerance, tolerance))


def decimal(number: float) -> float:
    """Return the shortest decimal whose nearest float32 is that of a number."""
    return float(str(np.float32(number)))
