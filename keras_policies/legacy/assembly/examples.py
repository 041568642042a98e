"""Draws inputs until the graph in a file, and the model, accept them."""

import contextlib
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_policies import keras_internals
from keras_policies._common import comparing
from keras_policies._common.comparing import Recipe
from keras_policies.backends.running import backend
from keras_policies.legacy.base.errors import LimitError
from keras_policies.legacy.base.traced_functions import (
    ConcreteFunction,
    Nest,
    TensorSpec,
    TracedFunctions,
)
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan.reconstruction import concrete_functions, reference
from keras_policies.legacy.plan.reconstruction.reference import (
    Interpreter,
    NotInterpretedError,
)

KEYS = 1000  # of each lookup table that inputs are drawn from


class Example(NamedTuple):
    """Inputs of a model, and the expected outputs."""

    inputs: Nest
    outputs: list[Array]
    allowed: list[float]  # difference of each output, as a share of the largest number


class UnsuitableError(Exception):
    """The graph cannot be run on these inputs."""


def example(model: keras.Model, dtypes: Iterable[str], size: int) -> Example | None:
    """Return seeded inputs and the model's outputs, or None if no inputs were found.

    Its layers compute in `dtypes`. `size` is that of its file in bytes, which has to
    explain what the model computes.
    """
    allowed = comparing.tolerance_here(dtypes).share
    specs = getattr(model, "inputs", None) or []
    for recipe in comparing.recipes(specs):
        try:
            with budget.anew(size):
                arrays = drawn(specs, recipe)
                nest = keras.tree.pack_sequence_as(getattr(model, "input", 0), arrays)
                charge(model, arrays, size)
                outputs = backend.outputs(model, nest)
        except LimitError:
            return None
        except Exception:  # layers raise any error for unsuitable inputs
            continue
        return Example(nest, outputs, [allowed] * len(outputs))
    return None


def accepted(
    interpreter: Interpreter,
    trace: ConcreteFunction,
    specs: Sequence[TensorSpec],
    bound: int | None,
    with_losses: ConcreteFunction | None = None,
) -> tuple[list[Array], list[Array]]:
    """Return inputs that the graph and its losses accept, and the outputs."""
    for kind in concrete_functions.composites(trace.inputs):
        raise UnsuitableError(f"it takes a {kind}")
    if any(spec.shape is None for spec in specs):
        raise UnsuitableError("it takes a tensor of any rank")
    keys = _keys(interpreter.traced)
    problem: Exception | None = None
    for lengths in comparing.LENGTHS:
        while True:
            inputs = drawn(specs, Recipe(lengths, bound, keys))
            try:
                with np.errstate(all="ignore"):
                    count = len(concrete_functions.specs(trace.outputs))
                    if with_losses is not None and with_losses.losses:
                        with contextlib.suppress(NotInterpretedError):
                            interpreter.run(with_losses, inputs)
                    return inputs, interpreter.run(trace, inputs, count)
            except reference.OutOfRangeError as error:
                if bound is not None and bound <= error.length:
                    raise NotInterpretedError(str(error)) from error
                bound = error.length
            except (NotInterpretedError, LimitError):
                raise
            except ValueError as error:
                problem = problem or error
                break
        if None not in [size for spec in specs for size in (spec.shape or ())[1:]]:
            break
    raise UnsuitableError(f"no inputs were found for it: {problem}")


def _keys(traced: TracedFunctions) -> dict[str, list[Any]]:
    """Return keys of a file's tables, and an unknown text, by dtype."""
    keys: dict[str, list[Any]] = {"string": [comparing.UNKNOWN], "int64": []}
    for table in traced.tables.values():
        if table is not None:
            dtype = "string" if table.keys.dtype.kind == "O" else "int64"
            keys[dtype] += table.keys[:KEYS].tolist()
    return keys


def drawn(specs: Sequence[comparing.Spec], recipe: Recipe) -> list[Array]:
    """Return seeded inputs, after their size is charged."""
    for shape in comparing.shapes(specs, recipe):
        budget.spend(float(np.prod(np.asarray(shape, "float64"))))
    return comparing.draw(specs, recipe)


def charge(model: keras.Model, inputs: Sequence[Array], size: int) -> None:
    """Raise LimitError if a model computes more than the size of its file explains."""
    longest = max((n for x in inputs for n in np.shape(x)), default=1)
    with budget.anew(size):
        for shape in keras_internals.shapes_in(model):
            length = math.prod(longest if n is None else n for n in shape)
            budget.spend(length)
            budget.free(4 * length)
