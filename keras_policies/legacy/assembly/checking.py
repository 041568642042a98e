"""Compares a model with the graph in its own file.

A SavedModel has the function that computed its outputs. It is run on arrays, and the
model is called on the same: if their outputs differ, the model was rebuilt wrongly.

Layers are also compared with their own functions, where the whole shows too little. A
class of the user's own may have the name of one of Keras's. Its function is small, and
takes all numbers, whatever comes before it:

    Conv2D -> Conv2D -> Dense      the whole takes minutes, Dense alone no time
    tanh -> Dense(clips at 20)     the whole never reaches 20, Dense alone does
"""

import collections
import contextlib
import dataclasses
import inspect
from collections.abc import Iterator
from typing import NamedTuple

import keras

from keras_policies import keras_internals
from keras_policies._common import comparing
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
from keras_policies.legacy.guards import budget, paths
from keras_policies.legacy.plan import classes, op_layers
from keras_policies.legacy.plan.plan import Plan
from keras_policies.legacy.plan.reconstruction import concrete_functions, in_training
from keras_policies.legacy.plan.reconstruction.reference import NotInterpretedError
from keras_policies.legacy.texts.inputs import TextInputs


def is_due(plan: Plan) -> bool:
    """Return whether a SavedModel has parts that may have been read wrongly.

    These are interpreted functions and code, user-defined classes, which may differ
    from those in the file, and classes that may only have the name of one of Keras.
    """
    traced = plan.legacy.traced
    if traced is None:
        return False
    if plan.reconstruction.layers:
        return True
    try:
        if _trace(traced, None) is None:
            return False
        layers = traced.layers.values()
        return bool(plan.report.rebuilt) or any(map(_is_uncertain, layers))
    except LegacyModelError:  # the file lacks its functions
        return False


def _is_uncertain(layer: TracedLayer) -> bool:
    """Return whether a layer may compute something other than its class in Keras.

    It is an op, of a user-defined class, has losses of its weights, or has less than
    half of the config, although classes of Keras record all of their arguments.
    """
    name = layer.class_name
    is_registered = classes.registered_name(name) is not None
    if name in op_layers.CLASSES or layer.regularizers or is_registered:
        return True
    stock = getattr(keras.layers, name, None)
    if stock is None or stock is keras.layers.InputLayer:
        return False
    named = inspect.signature(stock.__init__).parameters.values()
    optional = {p.name for p in named if p.default is not p.empty} - {"name", "dtype"}
    return len(optional & layer.config.keys()) < len(optional) / 2


def check(
    model: keras.Model,
    plan: Plan,
    signature: str | None,
    *,
    is_due: bool = True,
    texts: TextInputs | None = None,
) -> Check:
    """Compare a model with the graph in its file, or with that of a signature.

    Unless it `is_due`, the comparison is skipped if it takes more than about a second,
    if this backend cannot call the model, or if the file's functions disagree. `texts`
    converts texts to the numbers that the model takes.

    Raise a LegacyModelError that names the first layer whose outputs differ.
    """
    traced = plan.legacy.traced
    if traced is None:
        return Check(None, "only a SavedModel has one")
    try:
        trace = _trace(traced, signature)
    except LegacyModelError as error:
        return Check(None, error.reason)
    if trace is None:
        return Check(None, "the file holds no function of the model")
    tolerance = comparing.tolerance(plan.compute_dtypes)
    size = paths.size(plan.legacy.path) if is_due else 0
    served = traced.layers[0].served if signature is None else None
    comparison = Comparison(
        model, traced, trace, served, tolerance, size, is_due, texts
    )
    try:
        with keras_internals.texts_as_inputs():
            return _compared(comparison, size)
    except (NotInterpretedError, UnsuitableError) as error:
        return Check(None, str(error))
    except LegacyModelError:
        raise
    except UNEXPECTED as error:
        return Check(None, f"{type(error).__name__}: {error}")


def _compared(comparison: Comparison, size: int) -> Check:
    """Compare the whole, and its layers where that shows too little."""
    whole, layers = Check(None, "its graph is too large"), None
    with contextlib.suppress(LimitError), budget.anew(size):
        whole = comparison.check()
    difference = whole.difference
    if difference is not None and not whole.is_partial:
        return whole
    with contextlib.suppress(LimitError), budget.anew(size):
        layers = check_layers(comparison, all_layers=difference is None)
    if layers is None:
        return whole
    if difference is None:
        return layers
    return whole._replace(difference=max(difference, layers.difference or 0.0))


def _trace(traced: TracedFunctions, signature: str | None) -> ConcreteFunction | None:
    if signature is not None:
        return traced.signatures[signature]
    if 0 not in traced.layers:
        return None
    named = (t for t in traced.layers[0].traces if t.function in traced.functions)
    return next(iter(concrete_functions.for_inference([*named])), None)


class Pair(NamedTuple):
    """A layer of a model, and what its file has of it."""

    path: str
    layer: keras.Layer
    traced: TracedLayer


def check_layers(whole: Comparison, *, all_layers: bool) -> Check | None:
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
    differences = [each.difference or 0.0 for each in checks]
    coverages = [each.coverage for each in checks if each.coverage]
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
    trace = _of_layer(pair.traced, whole.traced)
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


def _of_layer(layer: TracedLayer, traced: TracedFunctions) -> ConcreteFunction | None:
    """Return the function of a layer that is called on its inputs alone."""
    traces = [t for t in layer.traces if t.function in traced.functions]
    for trace in concrete_functions.for_inference(traces):
        args, kwargs = trace.inputs
        if args and not concrete_functions.specs((args[1:], kwargs)):
            return trace
    return None
