"""Draws inputs until the graph in a file, and the model, accept them."""

import contextlib
import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_policies import keras_internals
from keras_policies._common import comparing
from keras_policies._common.comparing import Recipe
from keras_policies.backends.running import backend
from keras_policies.legacy.assembly.watching import Watching
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
from keras_policies.legacy.plan.reconstruction.reference import NotInterpretedError

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


class Run(NamedTuple):
    """Inputs that a graph accepted, how they were drawn, and the outputs."""

    recipe: Recipe
    inputs: list[Array]
    outputs: list[Array]
    leaks: frozenset[int]  # examples whose masks do not hold, as numbers are too large

    @property
    def batch(self) -> int:
        """The number of examples, or 1."""
        return next((len(x) for x in self.inputs if np.ndim(x)), 1)


def first(
    graph: Watching,
    trace: ConcreteFunction,
    specs: Sequence[TensorSpec],
    bound: int | None,
    with_losses: ConcreteFunction | None = None,
    ranges: Mapping[int, tuple[int, int]] = MappingProxyType({}),
) -> Run:
    """Return inputs that the graph and its losses accept, and the outputs.

    Integers are those that the graph takes, such as rows of its tables. `ranges` are
    those of some inputs, by their numbers.
    """
    for kind in concrete_functions.composites(trace.inputs):
        raise UnsuitableError(f"it takes a {kind}")
    if any(spec.shape is None for spec in specs):
        raise UnsuitableError("it takes a tensor of any rank")
    recipe = Recipe(bound=bound, keys=_keys(graph.traced), ranges=ranges)
    problem: Exception | None = None
    for lengths in comparing.LENGTHS:
        recipe = dataclasses.replace(recipe, lengths=lengths)
        while True:
            inputs, run = drawn(specs, recipe), None
            try:
                run = accepted(graph, trace, recipe, inputs, with_losses)
            except reference.OutOfRangeError as error:
                if _ranges(graph, recipe) == recipe.ranges:
                    if recipe.bound is not None and recipe.bound <= error.length:
                        raise NotInterpretedError(str(error)) from error
                    recipe = dataclasses.replace(recipe, bound=error.length)
            except (NotInterpretedError, LimitError):
                raise
            except ValueError as error:
                problem = problem or error
                break
            recipe = dataclasses.replace(recipe, ranges=_ranges(graph, recipe))
            if run is not None and _are_within(inputs, recipe.ranges):
                return run._replace(recipe=recipe)  # whose ends come later
        if not _are_open(specs):
            break
    raise UnsuitableError(f"no inputs were found for it: {problem}")


def accepted(
    graph: Watching,
    trace: ConcreteFunction,
    recipe: Recipe,
    inputs: list[Array],
    with_losses: ConcreteFunction | None = None,
) -> Run:
    """Run the graph, and its losses; raise ValueError if the inputs do not suit it."""
    with np.errstate(all="ignore"):
        count = len(concrete_functions.specs(trace.outputs))
        if with_losses is not None and with_losses.losses:
            with contextlib.suppress(NotInterpretedError):
                graph.run(with_losses, inputs)
        outputs = graph.run(trace, inputs, count)
        return Run(recipe, inputs, outputs, frozenset(graph.leaks))


def more(
    graph: Watching, specs: Sequence[TensorSpec], recipe: Recipe
) -> Iterator[Recipe]:
    """Yield recipes of more examples, after those that `first` has drawn.

    They have another batch size, other lengths where these are open, larger numbers,
    and the ends of the ranges of integers. Then come numbers on both sides of where
    the graph bends, and zeros.
    """
    has_numbers = any(spec.dtype in comparing.FLOATS for spec in specs)
    batches = [spec.shape[0] for spec in specs if spec.shape]
    batch = next((n for n in batches if n is not None), None)
    other = dataclasses.replace(
        recipe,
        batch=comparing.MANY,
        lengths=comparing.OTHER_LENGTHS[recipe.lengths]
        if _are_open(specs)
        else recipe.lengths,
    )
    if batch is None or batch >= comparing.MANY:
        scales = comparing.ROWS if has_numbers else recipe.scales
        yield dataclasses.replace(other, scales=scales)
    elif has_numbers:
        large = comparing.SCALES[1:]
        for start in range(0, len(large), batch):
            scales = large[start : start + batch]
            yield dataclasses.replace(other, scales=scales)
    scales = tuple(sorted({*graph.scales()}))[: comparing.MANY - 1]
    points = dict(_points(specs, graph))
    if scales or points:
        yield dataclasses.replace(
            recipe, batch=comparing.MANY, scales=(0.0, *scales), points=points
        )


def masks(graph: Watching, specs: Sequence[TensorSpec]) -> list[int]:
    """Return the inputs, by number, of integers of which only 0 and 1 may be meant."""
    is_integer = ("int" in spec.dtype for spec in specs)
    return [
        n for n, each in enumerate(is_integer) if each and graph.uses[n].may_be_mask
    ]


def _are_open(specs: Sequence[TensorSpec]) -> bool:
    return any(None in (spec.shape or ())[1:] for spec in specs)


def _ranges(graph: Watching, recipe: Recipe) -> Mapping[int, tuple[int, int]]:
    """Return the ranges of integers that the graph takes, by number of the input."""
    ranges = {number: use.range for number, use in graph.uses.items()}
    known = {n: limits for n, limits in ranges.items() if limits is not None}
    return {**known, **recipe.ranges} if recipe.bound is None else recipe.ranges


def _are_within(inputs: list[Array], ranges: Mapping[int, tuple[int, int]]) -> bool:
    return all(
        low <= np.min(inputs[n], initial=high)
        and np.max(inputs[n], initial=low) <= high
        for n, (low, high) in ranges.items()
    )


def _points(
    specs: Sequence[TensorSpec], graph: Watching
) -> Iterator[tuple[int, list[float]]]:
    """Yield numbers on both sides of those that an input is compared with."""
    for number, use in graph.uses.items():
        dtype, limits = specs[number].dtype, use.range
        if "int" in dtype and use.may_be_mask:
            continue
        is_integer = "int" in dtype
        around: list[float] = []
        for point in sorted(use.points):
            step = 1.0 if is_integer else max(1.0, abs(point)) / 8
            around += point - step, point, point + step
        if is_integer:
            low, high = limits or (0 if dtype.startswith("u") else -math.inf, math.inf)
            around = [x for x in around if low <= x <= high]
        drawn = range(comparing.BOUND if is_integer and not use.rows else 0)
        if not {*around} <= {*drawn} and (is_integer or not use.rows):
            yield number, around


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
