"""Finds batch normalization among the steps of a layer, in both of its functions.

    inference    BatchNormalization of x with the moving mean and variance
    training     the same with those of the batch; moving -= (moving - batch) * rate

Each is a FusedBatchNorm, or the ops of `tf.nn.batch_normalization` and `tf.nn.moments`.
Source: tensorflow/python/ops/nn_impl.py; `_assign_moving_average` in
keras/layers/normalization/batch_normalization.py of Keras 2.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from keras_policies.legacy.base import patterns
from keras_policies.legacy.base.traced_functions import Node, Output, VariableRef
from keras_policies.legacy.guards import limits
from keras_policies.legacy.ops import converters
from keras_policies.legacy.plan.reconstruction import ir
from keras_policies.legacy.plan.reconstruction.def_use import Owner, Read, dtype_of
from keras_policies.legacy.plan.reconstruction.proofs import decimal

FUSED = "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"
FORMULAS = (
    "(Add|AddV2)(Mul(x, factor), Sub(beta, Mul(mean, same)))",
    "(Add|AddV2)(Mul(x, factor), Neg(Mul(mean, same)))",
)
FACTORS = (
    "Mul(Rsqrt((Add|AddV2)(variance, epsilon)), gamma)",
    "Rsqrt((Add|AddV2)(variance, epsilon))",
)
MEAN = "Squeeze(Mean(x, axes))", "Mean(x, axes)"
DEVIATION = "SquaredDifference(x, StopGradient(Mean(same, inner)))"
VARIANCE = f"Squeeze(Mean({DEVIATION}, axes))", f"Mean({DEVIATION}, axes)"
UPDATE = "Mul(Sub(ReadVariableOp(variable), statistic), rate)"
ROLES = "gamma", "beta", "moving_mean", "moving_variance"
STATISTICS = ROLES[2:]


class Normalized(NamedTuple):
    """A batch normalization; `statistics` are None if they are those of the batch."""

    step: int
    x: ir.Value
    weights: tuple[ir.Value | None, ir.Value | None]  # gamma and beta
    statistics: tuple[ir.Value, ir.Value] | None
    epsilon: float
    axis: int = -1


def normalized(value: ir.Value, steps: Sequence[ir.Step]) -> Normalized | None:
    """Return the batch normalization that computes a value, or None."""
    step = ir.op_of(value, steps)
    if step is None or not isinstance(value, ir.StepOutput) or value.position:
        return None
    found = _fused(step) if step.op in FUSED else _of_ops(value, steps)
    return None if found is None else found._replace(step=value.step)


def _fused(step: ir.OpStep) -> Normalized | None:
    get = step.attributes.get  # files omit defaults
    if get("T") != get("U", get("T")):
        return None  # statistics of another dtype
    if len(step.inputs) != 5:
        return None
    x, gamma, beta, mean, variance = step.inputs
    is_first = converters.layout(get("data_format", "NHWC")) == "channels_first"
    return Normalized(
        0,
        x,
        (_weight(gamma, 1), _weight(beta, 0)),
        None if get("is_training", True) else (mean, variance),
        decimal(get("epsilon", 1e-4)),
        1 if is_first else -1,
    )


def _weight(value: ir.Value, neutral: float) -> ir.Value | None:
    """Return a weight, or None for the constant in its place."""
    array = ir.constant(value)
    return None if array is not None and np.all(array == neutral) else value


def _of_ops(value: ir.Value, steps: Sequence[ir.Step]) -> Normalized | None:
    def made_by(value: ir.Value) -> tuple[str, Sequence[ir.Value]] | None:
        step = ir.op_of(value, steps)
        return None if step is None else (step.op, step.inputs)

    def matches(texts: Sequence[str], value: ir.Value) -> list[dict[str, ir.Value]]:
        return [m for text in texts for m in patterns.matches(text, value, made_by)]

    for match in matches(FORMULAS, value):
        x, mean = match["x"], match["mean"]
        for factor in matches(FACTORS, match["factor"]):
            variance, number = factor["variance"], ir.items(factor["epsilon"]) or ()
            if match["factor"] != match["same"] or len(number) != 1:
                continue
            of_mean = [m for m in matches(MEAN, mean) if m["x"] == x]
            of_variance = matches(VARIANCE, variance)
            of_variance = [m for m in of_variance if m["x"] == m["same"] == x]
            axes = [m["axes"] for m in of_mean[:1] + of_variance[:1]]
            axes += [m["inner"] for m in of_variance[:1]]
            is_batch = len(axes) == 3 and all(map(_are_first, axes))
            statistics = None if is_batch else (mean, variance)
            weights = factor.get("gamma"), match.get("beta")
            return Normalized(0, x, weights, statistics, decimal(number[0]))
    return None


def _are_first(axes: ir.Value) -> bool:
    """Return whether axes are all but the last, if what is left is a vector."""
    found = ir.items(axes)
    return found is not None and sorted(found) == [*range(len(found))]


class Update(NamedTuple):
    """What training assigns to a variable: `variable -= (variable - x) * rate`."""

    position: int  # of x among the outputs of a FusedBatchNorm: 1 mean, 2 variance
    momentum: float


def update(
    node: Node, nodes: Mapping[str, Node], captured: Mapping[str, int | None]
) -> Update | None:
    """Return how an assignment moves a variable to a statistic of a batch, or None."""

    def made_by(output: Output) -> tuple[str, Sequence[Output]] | None:
        made = nodes.get(output.node)
        return None if made is None else (made.op, made.inputs)

    if len(node.inputs) < 2:
        return None
    variable, value = node.inputs[:2]
    made = nodes.get(value.node)
    if made is not None and made.op in FUSED and node.op == "AssignVariableOp":
        share = float(made.attributes.get("exponential_avg_factor", 1.0))
        return Update(_position(value, nodes), decimal(1 - share))
    if node.op != "AssignSubVariableOp":
        return None
    for match in patterns.matches(UPDATE, value, made_by):
        rate = nodes.get(match["rate"].node)
        is_same = captured.get(match["variable"].node) == captured[variable.node]
        if rate is not None and rate.op == "Const" and is_same:
            share = float(np.ravel(rate.attributes["value"])[0])
            return Update(_position(match["statistic"], nodes), decimal(1 - share))
    return None


def _position(output: Output, nodes: Mapping[str, Node]) -> int:
    """Return which output of a FusedBatchNorm is a statistic, 0 if it is none."""
    node = nodes.get(output.node)
    for _ in range(limits.SCALING_OPS):
        if node is None or node.op not in ("Identity", "Squeeze") or not node.inputs:
            break
        output, node = node.inputs[0], nodes.get(node.inputs[0].node)
    if node is None or not node.inputs:
        return 0
    if node.op in FUSED:
        names = ("y", "batch_mean", "batch_variance")
        named = names.index(output.output) if output.output in names else 0
        return named + output.position
    before = nodes.get(node.inputs[0].node)
    is_variance = before is not None and before.op == "SquaredDifference"
    return (2 if is_variance else 1) if node.op == "Mean" else 0


class Normalizations:
    """The layers for the batch normalizations that both functions of a layer have."""

    def __init__(self, owner: Owner, updates: Mapping[int, Update | None]) -> None:
        self._owner, self._updates = owner, updates
        self._specs: dict[object, ir.LayerSpec | None] = {}
        # The calls in each function, by step.
        self._calls: tuple[dict[int, ir.CallStep], dict[int, ir.CallStep]] = {}, {}

    @property
    def variables(self) -> set[int]:
        """The variables of the layers."""
        specs = [spec for spec in self._specs.values() if spec is not None]
        return {number for spec in specs for _, number, _ in spec.weights}

    def inputs(
        self, values: tuple[ir.Value, ir.Value], both: tuple[ir.Steps, ir.Steps]
    ) -> tuple[ir.Value, ir.Value] | None:
        """Return the inputs of two values that are one layer in both functions."""
        first, other = (normalized(*each) for each in zip(values, both, strict=True))
        if first is None or other is None or other.statistics is not None:
            return None
        if first._replace(x=other.x, step=other.step, statistics=None) != other:
            return None
        key = first[2:]
        if key not in self._specs:
            self._specs[key] = self._spec(first)
        spec = self._specs[key]
        if spec is None:
            return None
        for calls, one in zip(self._calls, (first, other), strict=True):
            calls[one.step] = ir.CallStep(spec, one.x)
        return first.x, other.x

    def _spec(self, found: Normalized) -> ir.LayerSpec | None:
        """Return the layer, or None if training did not move its statistics so."""
        values = zip(ROLES, (*found.weights, *(found.statistics or ())), strict=False)
        numbers = {
            role: value.variable if isinstance(value, VariableRef) else -1
            for role, value in values
            if value is not None
        }
        mean, variance = (self._updates.get(numbers.get(r, -1)) for r in STATISTICS)
        if mean is None or variance is None or self._owner.mixed is not None:
            return None
        if variance != mean._replace(position=2) or mean.position != 1:
            return None
        if min(numbers.values()) < 0:
            return None  # computed from weights
        number, variables = numbers["moving_mean"], self._owner.variables
        shape = variables[number].shape
        is_vector = len(shape) == 1
        is_vector &= all(variables[n].shape == shape for n in numbers.values())
        trained = {role: n for role, n in numbers.items() if role not in STATISTICS}
        if not is_vector or not self._owner.trainable.issuperset(trained.values()):
            return None
        config = {
            "axis": found.axis,
            "momentum": mean.momentum,
            "epsilon": found.epsilon,
            "scale": "gamma" in trained,
            "center": "beta" in trained,
            **self._owner.config(dtype_of(Read(number, shape), self._owner), **trained),
        }
        name = self._owner.label(number).removesuffix("moving_mean").rstrip("_")
        weights = tuple((role, n, None) for role, n in numbers.items())
        return ir.LayerSpec(
            name or "batch_normalization", "BatchNormalization", config, weights
        )

    def called(self, followed: ir.Followed, position: int) -> ir.Followed | None:
        """Return the first or the second function with calls of the layers.

        None if something else takes their weights, too.
        """
        steps, outputs = copy.copy(followed[0]), followed[1]
        for number, call in self._calls[position].items():
            steps[number] = call
        needed = [steps[number] for number in ir.needed_steps(steps, outputs)]
        is_shared = self.variables.intersection(ir.variables_in(needed))
        return None if is_shared else (steps, outputs)
