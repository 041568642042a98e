"""Finds batch normalization among the steps of a layer, in both of its functions.

    inference    BatchNormalization of x with the moving mean and variance
    training     the same with those of the batch; moving -= (moving - batch) * rate

Each is a FusedBatchNorm, or the ops of `tf.nn.batch_normalization` and `tf.nn.moments`.
Source: tensorflow/python/ops/nn_impl.py; `_assign_moving_average` in
keras/layers/normalization/batch_normalization.py of Keras 2.
"""

import collections
import copy
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from keras_policies.legacy.base import patterns
from keras_policies.legacy.base.traced_functions import Node, Output, VariableRef
from keras_policies.legacy.guards import limits
from keras_policies.legacy.ops import converters
from keras_policies.legacy.plan.reconstruction import ir
from keras_policies.legacy.plan.reconstruction.def_use import Owner, Read, dtype_of
from keras_policies.legacy.plan.reconstruction.idioms import FUSED, read_before
from keras_policies.legacy.plan.reconstruction.proofs import decimal

FORMULAS = (
    ("Add", ("Mul", "x", "factor"), ("Sub", "beta", ("Mul", "mean", "same"))),
    ("Add", ("Mul", "x", "factor"), ("Neg", ("Mul", "mean", "same"))),
)
FACTORS = (
    ("Mul", ("Rsqrt", ("Add", "variance", "epsilon")), "gamma"),
    ("Rsqrt", ("Add", "variance", "epsilon")),
)
MEAN = ("Squeeze", ("Mean", "x", "axes")), ("Mean", "x", "axes")
DEVIATION = ("SquaredDifference", "x", ("StopGradient", ("Mean", "same", "inner")))
VARIANCE = ("Squeeze", ("Mean", DEVIATION, "axes")), ("Mean", DEVIATION, "axes")
UPDATE = ("Mul", ("Sub", ("ReadVariableOp", "variable"), "statistic"), "rate")
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
    # The ops that compute the mean and the variance of the batch.
    made_by: tuple[str, str] = ("", "")


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
        (step.name, step.name) if get("is_training", True) else ("", ""),
    )


def _weight(value: ir.Value, neutral: float) -> ir.Value | None:
    """Return a weight, or None for the constant in its place."""
    array = ir.constant(value)
    return None if array is not None and np.all(array == neutral) else value


def _of_ops(value: ir.Value, steps: Sequence[ir.Step]) -> Normalized | None:
    def made_by(value: ir.Value) -> tuple[str, Sequence[ir.Value]] | None:
        step = ir.op_of(value, steps)
        return None if step is None else (step.op, step.inputs)

    def matches(
        several: Sequence[patterns.Pattern], value: ir.Value
    ) -> list[dict[str, ir.Value]]:
        return [m for each in several for m in patterns.matches(each, value, made_by)]

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
            found = Normalized(0, x, weights, statistics, decimal(number[0]))
            if is_batch:
                names = _mean(mean, steps), _mean(variance, steps)
                found = found._replace(made_by=names)
            return found
    return None


def _mean(value: ir.Value, steps: Sequence[ir.Step]) -> str:
    """Return the name of the Mean that makes a value."""
    step = ir.op_of(value, steps)
    if step is not None and step.op == "Squeeze":
        step = ir.op_of(step.inputs[0], steps)
    return "" if step is None else step.name


def _are_first(axes: ir.Value) -> bool:
    """Return whether axes are all but the last, if what is left is a vector."""
    found = ir.items(axes)
    return found is not None and sorted(found) == [*range(len(found))]


class Update(NamedTuple):
    """What training assigns to a variable: `variable -= (variable - x) * rate`."""

    position: int  # of x among the outputs of a FusedBatchNorm: 1 mean, 2 variance
    momentum: float
    made_by: str  # the FusedBatchNorm, or the Mean, that computes x


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
    if node.op == "AssignVariableOp":
        made, position = _statistic(value, nodes)
        if made is None or made.op not in FUSED:
            return None
        share = _share(made)
        if share != 1:  # it moved the numbers that it took
            taken = made.inputs[min(2 + position, len(made.inputs) - 1)]
            read = nodes.get(read_before(taken, nodes).node)
            if read is None or read.op != "ReadVariableOp":
                return None
            if captured.get(read.inputs[0].node) != captured[variable.node]:
                return None
        return Update(position, decimal(1 - share), made.name)
    if node.op != "AssignSubVariableOp":
        return None
    for match in patterns.matches(UPDATE, value, made_by):
        rate = nodes.get(match["rate"].node)
        is_same = captured.get(match["variable"].node) == captured[variable.node]
        if rate is not None and rate.op == "Const" and is_same:
            shares = {*np.ravel(rate.attributes["value"]).tolist()}
            made, position = _statistic(match["statistic"], nodes)
            if made is None or len(shares) != 1 or _share(made) != 1:
                return None
            return Update(position, decimal(1 - shares.pop()), made.name)
    return None


def _share(node: Node) -> float:
    """Return the share of the batch in the statistics of a FusedBatchNorm."""
    return float(node.attributes.get("exponential_avg_factor", 1.0))


def _statistic(output: Output, nodes: Mapping[str, Node]) -> tuple[Node | None, int]:
    """Return what computes a statistic, and which output of a FusedBatchNorm it is."""
    node = nodes.get(output.node)
    for _ in range(limits.SCALING_OPS):
        if node is None or node.op not in ("Identity", "Squeeze") or not node.inputs:
            break
        output, node = node.inputs[0], nodes.get(node.inputs[0].node)
    if node is None or not node.inputs:
        return None, 0
    if node.op in FUSED:
        names = ("y", "batch_mean", "batch_variance")
        named = names.index(output.output) if output.output in names else 0
        return node, named + output.position
    before = nodes.get(node.inputs[0].node)
    is_variance = before is not None and before.op == "SquaredDifference"
    return (node, 2 if is_variance else 1) if node.op == "Mean" else (None, 0)


# The assignments to a variable, and how often each is made.
Updates: TypeAlias = collections.Counter[Update | None]


class Normalizations:
    """The layers for the batch normalizations that both functions of a layer have."""

    def __init__(self, owner: Owner, updates: Mapping[int, Updates]) -> None:
        self._owner, self._updates = owner, updates
        self._specs: dict[object, ir.LayerSpec | None] = {}
        # The calls in each function, by step.
        self._calls: tuple[dict[int, ir.CallStep], dict[int, ir.CallStep]] = {}, {}
        # What computes the statistics of each call in training, by layer and step.
        self._made_by = collections.defaultdict[object, dict[int, tuple[str, str]]](
            dict
        )

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
        if first._replace(
            x=other.x, step=other.step, statistics=None
        ) != other._replace(made_by=first.made_by):
            return None
        key = first[2:-1]
        if key not in self._specs:
            self._specs[key] = self._spec(first)
        spec = self._specs[key]
        if spec is None:
            return None
        for calls, one in zip(self._calls, (first, other), strict=True):
            calls[one.step] = ir.CallStep(spec, one.x)
        self._made_by[key][other.step] = other.made_by
        return first.x, other.x

    def _spec(self, found: Normalized) -> ir.LayerSpec | None:
        """Return the layer, or None if training did not move its statistics so."""
        values = zip(ROLES, (*found.weights, *(found.statistics or ())), strict=False)
        numbers = {
            role: value.variable if isinstance(value, VariableRef) else -1
            for role, value in values
            if value is not None
        }
        moves = (self._updates.get(numbers.get(r, -1)) or {None} for r in STATISTICS)
        every = {each and each._replace(made_by="") for one in moves for each in one}
        mean = next((each for each in every if each and each.position == 1), None)
        if mean is None or every != {mean, mean._replace(position=2)}:
            return None
        if self._owner.mixed is not None:
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

        None if something else takes their weights, too, or if training did not move
        each once in each call, to the statistics of that call.
        """
        if not all(map(self._moves, self._specs)):
            return None
        steps, outputs = copy.copy(followed[0]), followed[1]
        for number, call in self._calls[position].items():
            steps[number] = call
        needed = [steps[number] for number in ir.needed_steps(steps, outputs)]
        is_shared = self.variables.intersection(ir.variables_in(needed))
        return None if is_shared else (steps, outputs)

    def _moves(self, key: object) -> bool:
        """Return whether training moved statistics to those that it normalized with."""
        spec, calls = self._specs[key], [*self._made_by[key].values()]
        numbers = {role: n for role, n, _ in spec.weights} if spec else {}
        for at, role in enumerate(STATISTICS if spec else ()):
            expected = collections.Counter((names[at], at + 1) for names in calls)
            found = collections.Counter[tuple[str, int]]()
            for each, count in self._updates[numbers[role]].items():
                if each is not None:
                    found[each.made_by, each.position] += count
            if found != expected:
                return False
        return True
