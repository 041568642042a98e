"""The losses that a layer added, and the regularizers of its weights.

No stock layer adds a tensor as a loss as it is. ActivityRegularization(l1=1) adds the
absolute value, divided by the batch size, which is 1 for a loss in the shape (1,):

    loss -> |loss + stop_gradient(2 * max(-loss, 0))|

is the loss where it is positive. Where it is negative, it has the other sign, and still
the gradient of the loss. So that Keras keeps the loss in the model, the output becomes
`where(loss == loss, output, output)`.
"""

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from keras_policies._common.types import Config
from keras_policies.legacy.base.errors import attempt
from keras_policies.legacy.base.traced_functions import (
    ConcreteFunction,
    TracedFunctions,
)
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.ops import table
from keras_policies.legacy.plan.reconstruction import ir
from keras_policies.legacy.plan.reconstruction.proofs import (
    OF_ANY_SIZE,
    Prober,
    bend,
    decimal,
    is_close,
)
from keras_policies.legacy.plan.reconstruction.tracing import Tracing

SEED = 0
PROBES = 8, 5, 7, 6  # their longest axes; the ops are such that any sizes do
SMALL = 1e-12  # factors below it are 0, but for rounding


def added(steps: ir.Steps, outputs: ir.Nest, losses: Sequence[ir.Value]) -> ir.Nest:
    """Add the steps that add losses to a model; return its outputs."""
    for loss in losses:
        outputs = _added(steps, outputs, loss)
    return outputs


def _added(steps: ir.Steps, outputs: ir.Nest, loss: ir.Value) -> ir.Nest:
    def op(op: str, *inputs: ir.Value, **attributes: object) -> ir.Value:
        return steps.op(f"loss_{op}", op, *inputs, **attributes)

    rows = ir.Constant(np.array([-1], "int32"))
    flat = op("Reshape", op("Cast", loss, DstT="float32"), rows)
    total = op("Sum", flat, ir.Constant(np.array([0], "int32")), keep_dims=True)
    negative = op("StopGradient", op("Relu", op("Neg", total)))
    positive = op("AddV2", total, op("AddV2", negative, negative))
    config = {"l1": 1.0, "l2": 0.0, "dtype": "float32"}
    spec = ir.LayerSpec("added_loss", "ActivityRegularization", config)
    added_loss = steps.add(ir.CallStep(spec, positive))
    total_loss = op("Reshape", added_loss, ir.Constant(np.zeros(0, "int32")))
    condition = op("Equal", total_loss, total_loss)
    values = ir.values_in(outputs)
    if values:
        values[0] = op("SelectV2", condition, values[0], values[0])
    left = iter(values)
    return ir.mapped(lambda _: next(left), outputs)


def is_supported(steps: Sequence[ir.Step], loss: ir.Value) -> bool:
    """Return whether all ops that a loss needs have a counterpart."""
    needed = (steps[number] for number in ir.needed_steps(steps, loss))
    return all(not isinstance(s, ir.OpStep) or s.op in table.NODES for s in needed)


def activity_losses(
    tracing: Tracing, regularizer: ConcreteFunction, activities: Sequence[ir.Value]
) -> list[ir.Value]:
    """Follow an activity regularizer; return its losses for one example each."""

    def op(op: str, *inputs: ir.Value, **attributes: object) -> ir.Value:
        return tracing.steps.op(f"activity_{op}", op, *inputs, **attributes)

    losses = []
    for activity in activities:
        (loss,) = tracing.follow(regularizer.function, [activity])
        sizes = op("Shape", activity)
        first = ir.Constant(np.int32(0))
        batch = op("GatherV2", sizes, first, first)
        losses.append(op("RealDiv", loss, op("Cast", batch, DstT="float32")))
    return losses


class Regularizers:
    """The regularizers of a file's weights, recognised by proofs."""

    def __init__(self, traced: TracedFunctions) -> None:
        self._traced = traced
        self.stock = functools.cache(self._stock)
        self.traces: dict[int, list[ConcreteFunction]] = {}
        for trace in traced.regularizers:
            if len(trace.captures) == 1 and trace.captures[0] in traced.variables:
                self.traces.setdefault(trace.captures[0], []).append(trace)

    def others(self, variables: Sequence[int]) -> list[ConcreteFunction]:
        """Return the losses of some variables that no stock regularizer computes."""
        return [
            trace
            for variable in variables
            for trace in self.traces.get(variable, ())
            if self.stock(variable) is None
        ]

    def _stock(self, variable: int) -> Config | None:
        """Return the L1L2 whose losses equal those of a variable, or None."""
        traces = self.traces.get(variable, [])
        if len(traces) != 1:
            return None
        weight, random = self._traced.variables[variable], np.random.default_rng(SEED)
        shapes = [[min(size, most) for size in weight.shape] for most in PROBES]
        arrays = [random.standard_normal(shape) for shape in shapes]
        losses: list[float] = []
        with attempt(ValueError):
            losses = [self._loss(variable, traces[0], array) for array in arrays]
        if not losses:
            return None
        rows = np.array([[term(array) for term in TERMS.values()] for array in arrays])
        factors = np.linalg.lstsq(rows, losses, rcond=None)[0]
        factors = np.where(np.abs(factors) < SMALL, 0, factors)
        if not is_close(rows @ factors, losses) or (factors < 0).any():
            return None
        numbers = map(decimal, factors)
        return {"class_name": "L1L2", "config": dict(zip(TERMS, numbers, strict=True))}

    def _loss(self, variable: int, trace: ConcreteFunction, array: Array) -> float:
        traced = self._traced.with_values({variable: array})
        return float(Prober(traced, OF_ANY_SIZE).run(trace, [])[0])


# The terms of L1L2, by the arguments that are their factors.
TERMS: Mapping[str, Callable[[Array], float]] = {
    "l1": lambda weight: float(bend("Abs")(weight).sum()),
    "l2": lambda weight: float(np.square(weight).sum()),
}
