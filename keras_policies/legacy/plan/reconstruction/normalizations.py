"""Replaces batch normalization that was written by hand by the stock layer.

Its formula has many spellings, but all compute the same. It is found by running the
traced functions on probes of all variables and of the input:

    inference    y = gamma * (x - mean) / sqrt(variance + epsilon) + beta
    training     the same, with the mean and the variance of the batch, and
                 mean = momentum * mean + (1 - momentum) * (that of the batch)
"""

import collections
import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from keras_policies._common.types import Config
from keras_policies.legacy.base.errors import attempt
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
from keras_policies.legacy.plan.reconstruction.reference import Interpreter

SEED = 0
EXAMPLES = 6  # of the probe, and its sizes that the file does not know
TOLERANCE = 1e-3
# Op that assigns -> the sign of its value, and whether the old value stays.
ASSIGNMENTS = {
    "AssignVariableOp": (1, 0),
    "AssignAddVariableOp": (1, 1),
    "AssignSubVariableOp": (-1, 1),
}
ROLES = "gamma", "beta", "moving_mean", "moving_variance"


# The variables of a batch normalization, by role, and its two numbers.
Formula: TypeAlias = tuple[Mapping[str, int], Config]


def batch_normalization(
    traced: TracedFunctions,
    layer: TracedLayer,
    name: str,
    trace: ConcreteFunction,
    in_training: ConcreteFunction,
) -> ir.LayerSpec | None:
    """Return the BatchNormalization that a layer is, or None."""
    formula = None
    with attempt(ValueError):
        formula = _formula(traced, layer, trace, in_training)
    if formula is None:
        return None
    variables, numbers = formula
    config = {
        "name": name,
        "axis": -1,
        **numbers,
        "scale": "gamma" in variables,
        "center": "beta" in variables,
        "trainable": bool(layer.trainable),
        "dtype": layer.config.get("dtype"),
    }
    weights = tuple((role, n, None) for role, n in variables.items())
    return ir.LayerSpec(name, "BatchNormalization", config, weights)


def _formula(
    traced: TracedFunctions,
    layer: TracedLayer,
    trace: ConcreteFunction,
    in_training: ConcreteFunction,
) -> Formula | None:
    trained = [n for n in layer.variables if n in layer.trainable]
    moved = [n for n in layer.variables if n not in layer.trainable]
    (spec,) = concrete_functions.specs(trace.inputs)
    shapes = {traced.variables[n].shape for n in layer.variables}
    if len(moved) != 2 or len(trained) > 2 or shapes != {(spec.shape or ())[-1:]}:
        return None
    random = np.random.default_rng(SEED)
    shape = [size or EXAMPLES for size in spec.shape or ()]
    budget.spend(float(np.prod(np.asarray(shape, "float64"))))
    x = random.standard_normal(shape).astype(spec.dtype)
    probes = {
        n: random.uniform(0.5, 1.5, traced.variables[n].shape).astype(spec.dtype)
        for n in layer.variables
    }
    traced = traced.with_values(probes)
    (y,) = Interpreter(traced).run(trace, [x], 1)
    (y_trained,) = Interpreter(traced).run(in_training, [x], 1)
    axes = tuple(range(x.ndim - 1))
    batch = {"moving_mean": x.mean(axes), "moving_variance": x.var(axes)}
    for roles in _roles(trained, moved):
        values = {role: probes[n] for role, n in roles.items()}
        epsilon = _epsilon(x, y, values)
        if epsilon is None or not _close(
            y_trained, _normalized(x, {**values, **batch}, epsilon)
        ):
            continue
        after = dict(_assigned(traced, in_training, x, probes))
        momenta = [
            (after[roles[role]] - batch[role]) / (values[role] - batch[role])
            for role in batch
            if roles[role] in after
        ]
        if len(momenta) == 2 and _close(np.ptp(momenta) + 1, np.ones(())):
            momentum = float(f"{np.mean(momenta):.4g}")
            return roles, {"epsilon": float(f"{epsilon:.3g}"), "momentum": momentum}
    return None


def _roles(trained: list[int], moved: list[int]) -> Iterator[dict[str, int]]:
    for scales in itertools.permutations(ROLES[:2], len(trained)):
        for statistics in itertools.permutations(ROLES[2:]):
            named = {**dict(zip(scales, trained, strict=True))}
            named |= dict(zip(statistics, moved, strict=True))
            yield {role: named[role] for role in ROLES if role in named}


def _normalized(x: Array, values: Mapping[str, Array], epsilon: float) -> Array:
    scaled = (x - values["moving_mean"]) * values.get("gamma", 1)
    deviation = np.sqrt(values["moving_variance"] + epsilon)
    return np.asarray(scaled / deviation + values.get("beta", 0))


def _epsilon(x: Array, y: Array, values: Mapping[str, Array]) -> float | None:
    scaled = (x - values["moving_mean"]) * values.get("gamma", 1)
    with np.errstate(all="ignore"):
        squares = (scaled / (y - values.get("beta", 0))) ** 2
    median = float(np.median(squares - values["moving_variance"]))
    if not -1e-6 < median < 0.1:
        return None
    epsilon = max(median, 0.0)
    return epsilon if _close(y, _normalized(x, values, epsilon)) else None


def _close(actual: Array, expected: Array) -> bool:
    same_shape = np.shape(actual) == np.shape(expected)
    return same_shape and bool(np.allclose(actual, expected, TOLERANCE, TOLERANCE))


def _assigned(
    traced: TracedFunctions, trace: ConcreteFunction, x: Array, old: Mapping[int, Array]
) -> Iterator[tuple[int, Array]]:
    """Yield the variables that a trace assigns, with their values after it."""
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
    results = Interpreter(traced).run(ConcreteFunction("", (), (), captures), [x])
    for node, value in zip(nodes, results, strict=True):
        (sign, stays), number = ASSIGNMENTS[node.op], captured[node.inputs[0].node]
        yield number, stays * old[number] + sign * value


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
