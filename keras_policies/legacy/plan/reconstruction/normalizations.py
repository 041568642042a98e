"""Replaces batch normalization that was written by hand by the stock layer.

Its formula has many spellings, but all compute the same. It is proven by running the
traced functions on probes of all variables and of the input (see `proofs`):

    inference    y = gamma * (x - mean) / sqrt(variance + epsilon) + beta
    training     the same, with the mean and the variance of the batch, and
                 mean = momentum * mean + (1 - momentum) * (that of the batch)
"""

import collections
import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_policies._common.types import Config
from keras_policies.legacy.base import trees
from keras_policies.legacy.base.errors import UNEXPECTED, attempt
from keras_policies.legacy.base.traced_functions import (
    CALLS,
    ConcreteFunction,
    Function,
    TracedFunctions,
    TracedLayer,
)
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan.reconstruction import concrete_functions, ir
from keras_policies.legacy.plan.reconstruction.proofs import Prober, decimal, is_close

SEED = 0
EXAMPLES = 4, 3  # of the probes, and their sizes that the file does not know
STEP = 1e-5  # a small change, which shows a gradient; its square is negligible
FLOAT32 = 2e-7  # relative: two neighbours of a float32
# Op that assigns -> the sign of its value, and whether the old value stays.
ASSIGNMENTS = {
    "AssignVariableOp": (1, 0),
    "AssignAddVariableOp": (1, 1),
    "AssignSubVariableOp": (-1, 1),
}
ROLES = "gamma", "beta", "moving_mean", "moving_variance"
STATISTICS = ROLES[2:]


def batch_normalization(
    traced: TracedFunctions,
    layer: TracedLayer,
    name: str,
    trace: ConcreteFunction,
    in_training: ConcreteFunction,
) -> ir.LayerSpec | None:
    """Return the BatchNormalization that a layer is, or None."""
    moved = [n for n in layer.variables if n not in layer.trainable]
    losses = trace.losses, in_training.losses, layer.regularizers
    does_more = any(losses) or layer.activity_regularizer is not None
    if len(moved) != 2 or does_more or len(trees.leaves(trace.outputs)) != 1:
        return None
    with attempt(*UNEXPECTED), np.errstate(all="ignore"):
        return _layer_spec(traced, layer, name, trace, in_training)
    return None


def _layer_spec(
    traced: TracedFunctions,
    layer: TracedLayer,
    name: str,
    trace: ConcreteFunction,
    in_training: ConcreteFunction,
) -> ir.LayerSpec | None:
    (spec,) = concrete_functions.specs(trace.inputs)
    shapes = {traced.variables[n].shape for n in layer.variables}
    if len(spec.shape or ()) < 2 or shapes != {(spec.shape or ())[-1:]}:
        return None
    runs = [
        _run(traced, layer, (trace, in_training), [n or size for n in spec.shape or ()])
        for size in EXAMPLES
    ]
    for roles in _roles(layer):
        numbers = _numbers(roles, runs)
        if numbers is not None:
            config = {
                "name": name,
                "axis": -1,
                **numbers,
                "scale": "gamma" in roles,
                "center": "beta" in roles,
                "trainable": True,  # a frozen one would not move its statistics
                "dtype": layer.config.get("dtype"),
            }
            weights = tuple((role, n, None) for role, n in roles.items())
            return ir.LayerSpec(name, "BatchNormalization", config, weights)
    return None


class _Run(NamedTuple):
    """Inputs and outputs of the two functions of a layer, on a probe."""

    x: Array
    variables: Mapping[int, Array]
    y: Array  # in inference
    y_in_training: Array
    assigned: Mapping[int, Array]
    # The same in training after a small change of all, without what it does to tensors
    # whose gradients are stopped.
    x_after: Array
    variables_after: Mapping[int, Array]
    y_after: Array


def _run(
    traced: TracedFunctions,
    layer: TracedLayer,
    traces: tuple[ConcreteFunction, ConcreteFunction],
    shape: Sequence[int],
) -> _Run:
    budget.spend(float(np.prod(np.asarray(shape, "float64"))), 8)
    random = np.random.default_rng(SEED)
    trace, in_training = traces
    x = random.standard_normal(shape)
    variables = {
        n: random.uniform(0.5, 1.5, traced.variables[n].shape) for n in layer.variables
    }
    step = STEP * random.standard_normal(shape)
    after = {
        n: array + STEP * random.standard_normal(array.shape) * (n in layer.trainable)
        for n, array in variables.items()
    }
    stopped: list[Array] = []
    return _Run(
        x,
        variables,
        _output(traced.with_values(variables), trace, x, None),
        _output(traced.with_values(variables), in_training, x, stopped),
        _assigned(traced.with_values(variables), in_training, x, variables),
        x + step,
        after,
        _output(traced.with_values(after), in_training, x + step, stopped),
    )


def _output(
    traced: TracedFunctions,
    trace: ConcreteFunction,
    x: Array,
    stopped: list[Array] | None,
) -> Array:
    prober = Prober(traced, stopped=stopped)
    (y,) = prober.run(trace, [prober.opened(x)], 1)
    return np.asarray(y)


def _roles(layer: TracedLayer) -> Iterator[dict[str, int]]:
    trained = [n for n in layer.variables if n in layer.trainable]
    moved = [n for n in layer.variables if n not in layer.trainable]
    for scales in itertools.permutations(ROLES[:2], len(trained)):
        for statistics in itertools.permutations(STATISTICS):
            named = {**dict(zip(scales, trained, strict=True))}
            named |= dict(zip(statistics, moved, strict=True))
            yield {role: named[role] for role in ROLES if role in named}


def _numbers(roles: Mapping[str, int], runs: Sequence[_Run]) -> Config | None:
    """Return epsilon and momentum if all runs are a batch normalization, or None."""
    values = [{r: run.variables[n] for r, n in roles.items()} for run in runs]
    epsilon = decimal(max(_epsilon(runs[0], values[0]), 0.0))
    exact = float(np.float32(epsilon))
    changes: list[tuple[Array, Array, Array]] = []  # old, that of the batch, new
    for run, old in zip(runs, values, strict=True):
        batch = _statistics(run.x)
        after = {r: run.variables_after[n] for r, n in roles.items()}
        after |= _statistics(run.x_after)
        if not (
            is_close(run.y, _normalized(run.x, old, exact))
            and is_close(run.y_in_training, _normalized(run.x, {**old, **batch}, exact))
            and is_close(
                run.y_after, _normalized(run.x_after, after, exact), STEP / 1e3
            )
            and run.assigned.keys() == {roles[role] for role in batch}
        ):
            return None
        changes += [(old[r], batch[r], run.assigned[roles[r]]) for r in batch]
    momentum = _momentum(*map(np.concatenate, zip(*changes, strict=True)))
    return None if momentum is None else {"epsilon": epsilon, "momentum": momentum}


def _momentum(old: Array, batch: Array, new: Array) -> float | None:
    """Return the momentum that both factors of a moving statistic are made of."""
    (stays, taken), *_ = np.linalg.lstsq(np.stack([old, batch], 1), new, rcond=None)
    if not is_close(stays * old + taken * batch, new):
        return None
    for momentum in (decimal(stays), 1 - decimal(taken)):
        expected = np.float32(1 - momentum)
        if abs(stays - momentum) <= FLOAT32 and abs(taken - expected) <= FLOAT32 * abs(
            expected
        ):
            return momentum
    return None


def _statistics(x: Array) -> dict[str, Array]:
    axes = tuple(range(x.ndim - 1))
    return dict(zip(STATISTICS, (x.mean(axes), x.var(axes)), strict=True))


def _normalized(x: Array, values: Mapping[str, Array], epsilon: float) -> Array:
    scaled = (x - values["moving_mean"]) * values.get("gamma", 1)
    deviation = np.sqrt(values["moving_variance"] + epsilon)
    return np.asarray(scaled / deviation + values.get("beta", 0))


def _epsilon(run: _Run, values: Mapping[str, Array]) -> float:
    scaled = (run.x - values["moving_mean"]) * values.get("gamma", 1)
    squares = (scaled / (run.y - values.get("beta", 0))) ** 2
    return float(np.median(squares - values["moving_variance"]))


def _assigned(
    traced: TracedFunctions, trace: ConcreteFunction, x: Array, old: Mapping[int, Array]
) -> dict[int, Array]:
    """Return the new values of the variables that a trace assigns, once each."""
    traced, values, assigned = assignments(traced, trace)
    prober, new = Prober(traced, stopped=[]), dict[int, Array]()
    results = prober.run(values, [prober.opened(x)])
    for (op, number), value in zip(assigned, results, strict=True):
        if number in new:
            raise ValueError("a variable is assigned twice")
        sign, stays = ASSIGNMENTS[op]
        new[number] = stays * old[number] + sign * value
    return new


def assignments(
    traced: TracedFunctions, trace: ConcreteFunction
) -> tuple[TracedFunctions, ConcreteFunction, list[tuple[str, int]]]:
    """Return a trace of the values that a trace assigns, by ops to variables."""
    function, captures = _inner(traced, trace)
    captured = dict(zip(function.arguments[-len(captures) :], captures, strict=True))
    nodes = [
        node
        for node in function.nodes.values()
        if node.op in ASSIGNMENTS and node.inputs[0].node in captured
    ]
    values = tuple(node.inputs[1] for node in nodes)
    inside = dataclasses.replace(function, outputs=values)
    # Without reading the other functions of the file.
    mappings: Any = {"": inside}, traced.functions
    functions = collections.ChainMap[str, Function](*mappings)
    traced = dataclasses.replace(traced, functions=functions)
    assigned = [(node.op, captured[node.inputs[0].node]) for node in nodes]
    return traced, ConcreteFunction("", (), (), captures), assigned


def _inner(
    traced: TracedFunctions, trace: ConcreteFunction
) -> tuple[Function, tuple[int, ...]]:
    """Return the inner function that a trace only calls, with its captures."""
    function = traced.functions[trace.function]
    calls = [node for node in function.nodes.values() if node.op in CALLS]
    if len(calls) != 1:
        return function, trace.captures
    names = function.arguments[-len(trace.captures) :]
    captured = dict(zip(names, trace.captures, strict=True))
    inner = traced.functions[str(calls[0].attributes.get("f"))]
    inputs = (output.node for output in calls[0].inputs)
    return inner, tuple(captured[name] for name in inputs if name in captured)
