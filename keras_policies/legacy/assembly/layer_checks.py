"""Compares layers with their own functions, where the whole graph shows too little.

A class of the user's own may have the name of one of Keras's. Its function is small,
and takes all numbers, whatever comes before it:

    Conv2D -> Conv2D -> Dense      the whole takes minutes, Dense alone no time
    tanh -> Dense(clips at 20)     the whole never reaches 20, Dense alone does
"""

import collections
import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import keras

from keras_policies.legacy.assembly import watching
from keras_policies.legacy.assembly.comparison import Check, Comparison
from keras_policies.legacy.assembly.examples import UnsuitableError
from keras_policies.legacy.assembly.own_classes import is_stock
from keras_policies.legacy.assembly.targets import is_graph
from keras_policies.legacy.base.errors import UNEXPECTED, LegacyModelError, LimitError
from keras_policies.legacy.base.traced_functions import (
    ConcreteFunction,
    TracedFunctions,
    TracedLayer,
)
from keras_policies.legacy.plan.reconstruction import concrete_functions, in_training
from keras_policies.legacy.plan.reconstruction.reference import NotInterpretedError


class Pair(NamedTuple):
    """A layer of a model, and what its file has of it."""

    path: str
    layer: keras.Layer
    traced: TracedLayer


def check(whole: Comparison, *, all_layers: bool) -> Check | None:
    """Compare the layers of a model, as far as the budget goes; None if none can be.

    Without `all_layers`, these are the layers with an op that bends.
    """
    if not is_graph(whole.model):
        return None
    pairs = [*_pairs(whole.model, whole.traced, 0, "")]
    checks = []
    for pair in _in_turn(pairs):
        try:
            part = _part(whole, pair, all_layers)
            if part is not None:
                checks.append(part.check())
        except (LimitError, NotInterpretedError, UnsuitableError):
            continue
        except LegacyModelError as error:
            error.layer = error.layer or pair.path
            raise
        except UNEXPECTED:
            continue
    if not checks:
        return None
    differences = [check.difference or 0.0 for check in checks]
    coverages = [check.coverage for check in checks if check.coverage]
    least = min(coverages, key=lambda coverage: [*map(len, coverage)])
    return Check(max(differences), coverage=least, layers=(len(checks), len(pairs)))


def _pairs(
    model: keras.Model, traced: TracedFunctions, number: int, prefix: str
) -> Iterator[Pair]:
    """Yield the layers of Keras's classes, those of inner models, too."""
    numbers = traced.by_name(number)
    for layer in model.layers:
        if layer.name not in numbers or isinstance(layer, keras.layers.InputLayer):
            continue
        path = f"{prefix}{layer.name}"
        if is_graph(layer):
            yield from _pairs(layer, traced, numbers[layer.name], f"{path}/")
        elif is_stock(layer):
            yield Pair(path, layer, traced.layers[numbers[layer.name]])


def _part(whole: Comparison, pair: Pair, all_layers: bool) -> Comparison | None:
    """Return the comparison of a layer with its function, if it has one."""
    trace = _trace(pair.traced, whole.traced)
    if trace is None or not (all_layers or _bends(trace, whole.traced)):
        return None
    return dataclasses.replace(
        whole,
        model=pair.layer,
        trace=trace,
        served=None,
        is_due=False,
        is_part=True,
        texts=None,
    )


def _in_turn(pairs: list[Pair]) -> list[Pair]:
    """Return one layer of each class, then a second one of each, and so on."""
    counts: collections.Counter[str] = collections.Counter()
    turns = []
    for pair in pairs:
        turns.append(counts[pair.traced.class_name])
        counts[pair.traced.class_name] += 1
    order = sorted(range(len(pairs)), key=turns.__getitem__)
    return [pairs[i] for i in order]


def _bends(trace: ConcreteFunction, traced: TracedFunctions) -> bool:
    bodies = in_training.bodies(traced, trace.function)
    return any(watching.bends(node) for body in bodies for node in body.values())


def _trace(layer: TracedLayer, traced: TracedFunctions) -> ConcreteFunction | None:
    """Return the function of a layer that is called on its inputs alone."""
    traces = [t for t in layer.traces if t.function in traced.functions]
    for trace in concrete_functions.for_inference(traces):
        args, kwargs = trace.inputs
        if args and not concrete_functions.specs((args[1:], kwargs)):
            return trace
    return None
