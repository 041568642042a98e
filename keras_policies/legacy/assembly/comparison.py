"""Runs a model and the function in its file on the same inputs.

If their outputs differ, the error names the first layer that differs.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_policies import keras_internals
from keras_policies._common import comparing
from keras_policies._common.comparing import Recipe, Tolerance, relative_difference
from keras_policies.backends import hardware
from keras_policies.backends.running import backend
from keras_policies.legacy.assembly import (
    examples,
    explanations,
    judging,
    own_classes,
)
from keras_policies.legacy.assembly.examples import Example, Run, UnsuitableError
from keras_policies.legacy.assembly.judging import Coverage, Part
from keras_policies.legacy.assembly.loss_checks import Losses, with_losses
from keras_policies.legacy.assembly.serving import Served
from keras_policies.legacy.assembly.watching import Rounding, Watching
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.errors import UNEXPECTED, LegacyModelError, LimitError
from keras_policies.legacy.base.traced_functions import (
    SERVING,
    ConcreteFunction,
    Nest,
    TensorSpec,
    TracedFunctions,
)
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan.reconstruction import (
    concrete_functions,
    ir,
    program,
)
from keras_policies.legacy.plan.reconstruction.reference import (
    Interpreter,
    NotInterpretedError,
)
from keras_policies.legacy.texts.inputs import TextInputs

SAMPLES = 3  # runs of the graph that show the effect of rounding


class Check(NamedTuple):
    """The result of comparing a model with its own graph."""

    # As a share of the largest number of an output; None if nothing was compared.
    difference: float | None
    reason: str | None = None  # why nothing was compared
    dropouts: tuple[str, ...] = ()  # scopes in which the graph drops numbers
    other_losses: str = ""  # how the losses of layers and weights differ
    example: Example | None = None  # the inputs and outputs that were compared
    coverage: Coverage | None = None  # the examples that were compared
    masks: tuple[str, ...] = ()  # inputs that were compared as 0 and 1 alone
    layers: tuple[int, int] | None = None  # if layers were compared: how many, of all
    is_partial: bool = False  # whether the graph bends where no example led

    def __str__(self) -> str:
        if self.difference is None:
            return f"not checked against its own graph: {self.reason}"
        where = f", on {self.where}" if self.where else ""
        return (
            "checked against its own graph: largest difference "
            f"{self.difference:.1g} of the largest output{where}"
        )

    @property
    def where(self) -> str:
        """str, on which examples and layers the model was compared; "" if on none."""
        texts = [str(self.coverage)] if self.coverage else []
        if self.layers is not None:
            texts.append("{} of {} layers (the whole graph is too large)")
            texts[-1] = texts[-1].format(*self.layers)
        return ", ".join(texts)


class EqualForMasksError(LegacyModelError):
    """The model differs, but not where some integers are those of masks, 0 and 1."""

    check: Check  # of the model with such integers


class _NotCalledError(Exception):
    """The model refuses inputs of the graph; `args` has the error to raise."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The comparison of a model with the graph in its own file."""

    model: keras.Model
    traced: TracedFunctions
    trace: ConcreteFunction
    served: ConcreteFunction | None  # traced by calling the model, so it is right
    tolerance: Tolerance
    size: int  # of the file, in bytes
    is_due: bool  # whether it is an error if nothing can be compared
    texts: TextInputs | None  # converts texts to numbers for the model
    is_part: bool = False  # whether it is a layer, which shares the budget of others

    def check(self) -> Check:
        graph = Watching(self.traced)
        problems: list[_NotCalledError] = []
        for bound in (None, 2):  # numbers may be classes, of which there may be few
            try:
                run = examples.first(
                    graph, self.trace, self._specs, bound, self._losses.trace
                )
                return self._with_more(graph, run, self._compared(graph, run))
            except LegacyModelError as error:
                self._raise_if_equal_for_masks(graph, error)
                raise
            except _NotCalledError as error:
                problems.append(error)
        specs = [*self._specs, *concrete_functions.specs(self.trace.outputs)]
        (reason,) = problems[0].args
        if not self.is_due:
            raise UnsuitableError(reason.reason)
        has_texts = any(spec.dtype == "string" for spec in specs)
        if has_texts and keras.backend.backend() != "tensorflow":
            raise UnsuitableError(f"{keras.backend.backend()} has no texts")
        raise reason from problems[0].__cause__

    def _raise_if_equal_for_masks(
        self, graph: Watching, error: LegacyModelError
    ) -> None:
        """Compare again where integers that may be masks are 0 and 1."""
        numbers = examples.masks(graph, self._specs)
        if not numbers:
            return
        ranges = dict.fromkeys(numbers, comparing.MASK)
        try:
            run = examples.first(
                graph, self.trace, self._specs, None, self._losses.trace, ranges
            )
            check = self._with_more(graph, run, self._compared(graph, run))
        except (ValueError, UnsuitableError, _NotCalledError):
            return  # it differs there, too
        equal = EqualForMasksError(
            error.reason, error.hint, suspects=error.suspects, code=error.code
        )
        equal.check = check._replace(masks=tuple(self._specs[n].name for n in numbers))
        raise equal from error

    def _with_more(self, graph: Watching, first: Run, check: Check) -> Check:
        """Return a check after more examples are compared, as far as these suit."""
        assert check.coverage is not None
        coverage, differences = check.coverage, [check.difference or 0.0]
        is_partial = True
        limited = budget.of(0) if self.is_part else budget.anew(self.size)
        with limited, contextlib.suppress(LimitError):
            for recipe in examples.more(graph, self._specs, first.recipe):
                run = self._run(graph, recipe, first.recipe.lengths)
                if run is not None:
                    expected = self._as_served(run) if self._serving.is_other else None
                    shares, covered = self._judged(run, self._outputs(run), expected)
                    coverage = coverage.joined(covered)
                    differences += shares
            is_partial = graph.is_partial
        return check._replace(
            difference=max(differences), coverage=coverage, is_partial=is_partial
        )

    def _run(
        self, graph: Watching, recipe: Recipe, lengths: tuple[int, ...]
    ) -> Run | None:
        """Run the graph on more inputs; if the lengths do not suit it, on others."""
        for each in dict.fromkeys((recipe.lengths, lengths)):
            recipe = dataclasses.replace(recipe, lengths=each)
            inputs = examples.drawn(self._specs, recipe)
            with contextlib.suppress(ValueError):
                return examples.accepted(graph, self.trace, recipe, inputs)
        return None

    def _outputs(self, run: Run) -> list[Array]:
        """Return the outputs of the model on the inputs of the graph."""
        examples.charge(self.model, run.inputs, self.size)
        return _called(self.model, self._nest(run.inputs))

    @property
    def _losses(self) -> Losses:
        """The losses of the model; those of a part are not known."""
        trace = None if self.is_part else with_losses(self.traced, self.trace)
        return Losses(self.model, self.traced, trace, self.tolerance, self.size)

    @functools.cached_property
    def _serving(self) -> Served:
        return Served(self.traced, self.served, self.trace, self.size)

    def _as_served(self, run: Run) -> list[Array]:
        """Return the outputs of the signature that tf.keras traced, if there is one."""
        return self._serving.outputs(concrete_functions.specs(self.trace.inputs), run)

    @property
    def _specs(self) -> list[TensorSpec]:
        """The inputs of the graph, with sizes that only the model knows."""
        specs = concrete_functions.specs(self.trace.inputs)
        if self.texts is not None:
            return specs
        shapes = [x.shape for x in getattr(self.model, "inputs", None) or ()]
        if [len(spec.shape or ()) for spec in specs] != [*map(len, shapes)]:
            return specs
        sized = []
        for spec, shape in zip(specs, shapes, strict=True):
            pairs = zip(spec.shape or (), shape, strict=True)
            sizes = tuple(other if n is None else n for n, other in pairs)
            sized.append(spec._replace(shape=sizes))
        return sized

    def _compared(self, graph: Watching, run: Run) -> Check:
        """Compare the first examples, and everything that one example shows."""
        outputs = self._outputs(run)
        if len(outputs) != len(run.outputs):
            what = f"{len(outputs)} outputs, its own graph {len(run.outputs)}"
            raise _differs("", self.model, what)
        expected = self._as_served(run)
        shares, coverage = self._judged(run, outputs, expected)
        if not coverage.scales:
            most = self.tolerance.most
            raise UnsuitableError(f"rounding changes its outputs by more than {most}")
        if not self.is_part:
            self._losses.check_regularizers(graph)
        nest = self._nest(run.inputs)
        allowed = [max(self.tolerance.share, 2 * share) for share in shares]
        return Check(
            max(shares, default=0.0),
            dropouts=tuple(graph.dropouts),
            other_losses=self._losses.different(graph, run.inputs, nest),
            example=Example(nest, expected, allowed),
            coverage=coverage,
        )

    def _judged(
        self, run: Run, outputs: list[Array], expected: list[Array] | None = None
    ) -> tuple[list[float], Coverage]:
        """Return the differences of the outputs, and what was compared.

        Raise an error if they differ. `expected` are those of the served signature; it
        is run if they are None, and the functions of layers give other outputs.
        """
        wanted = [*map(np.asarray, run.outputs if expected is None else expected)]
        for actual, each in zip(outputs, wanted, strict=True):
            if actual.shape != each.shape:
                what = f"the shape {actual.shape}, its own graph {each.shape}"
                raise self._located(run, what)
        is_half = self.tolerance > comparing.TOLERANCES["tensorfloat32"]
        parts = judging.parts(run, outputs, wanted, overflows=is_half)
        rounded = functools.cache(lambda: self._rounded(run))

        def noise(part: Part) -> float:
            seen = judging.noise(part, run.outputs, *rounded())
            return max(seen, comparing.rounding_of_products())

        equal, wrong = judging.verdict(parts, self.tolerance, noise)
        if wrong and expected is None and self.served is not None:
            return self._judged(run, outputs, self._as_served(run))
        if wrong and is_half and (fault := hardware.problem()):
            raise UnsuitableError(fault)
        for part in wrong:
            functions = np.asarray(run.outputs[part.output])[part.rows]
            served = wanted[part.output][part.rows]
            share = relative_difference(functions, served, part.largest)
            if not share <= max(self.tolerance.share, judging.ROUNDINGS * noise(part)):
                self._raise_served_differs(share)
            raise self._located(run, str(part))
        scales = frozenset(part.scale for part in equal)
        coverage = Coverage(scales, frozenset([run.batch] if equal else []))
        return [part.share for part in equal], coverage

    def _raise_served_differs(self, share: float) -> None:
        if not self.is_due:
            raise UnsuitableError("its functions and its signature differ")
        raise LegacyModelError(
            f"its signature {SERVING!r} gives other numbers than the functions "
            f"of its layers (by {share:.1g} of the largest). Most likely a "
            "layer reads the mask of its input, which they do not have.",
            f"Pass {hints.signature(SERVING)} for what it does, or the classes "
            f"({hints.CUSTOM_OBJECTS}); {hints.UNVERIFIED} opens it as its "
            "functions are.",
            code="KP501",
        )

    def _rounded(self, run: Run) -> tuple[list[list[Array]], set[int]]:
        """Return outputs of the graph whose numbers are changed as by rounding.

        Also return the examples for which it computes infinity on the way.
        """
        graphs = [Rounding(self.traced, seed) for seed in range(SAMPLES)]
        with budget.anew(self.size), np.errstate(all="ignore"):
            count = len(run.outputs)
            samples = [graph.run(self.trace, run.inputs, count) for graph in graphs]
        return samples, set[int]().union(*(graph.infinite for graph in graphs))

    def _located(self, run: Run, what: str) -> LegacyModelError:
        """Return the error for outputs that differ, with the first layer that does."""
        try:
            first = self._first_difference(run.inputs, self._nest(run.inputs))
        except (NotInterpretedError, *UNEXPECTED):  # it differs, wherever that is
            first = "", self.model
        return _differs(*first, what)

    def _nest(self, inputs: Sequence[Array]) -> Nest:
        """Return inputs in the structure that the model takes."""
        if self.texts is not None:
            specs = concrete_functions.specs(self.trace.inputs)
            by_name = {x.name: value for x, value in zip(specs, inputs, strict=True)}
            is_named = {name for name, _ in self.texts.sources} == by_name.keys()
            return self.texts(by_name) if is_named else self.texts(*inputs)
        structure = getattr(self.model, "input", 0)  # a Sequential has none
        if len(inputs) == 1 and getattr(self.model, "inputs", None):
            return keras.tree.pack_sequence_as(structure, inputs)
        names = [spec.name for spec in concrete_functions.specs(self.trace.inputs)]
        if isinstance(structure, dict) and {*structure} == {*names}:
            return dict(zip(names, inputs, strict=True))
        leaves: list[ir.Value] = [ir.Argument(i) for i in range(len(inputs))]
        filled = concrete_functions.unflatten(self.trace.inputs, iter(leaves))
        by_argument = dict(zip(leaves, inputs, strict=True))
        return ir.mapped(by_argument.__getitem__, program.inputs(filled, leaves))

    def _first_difference(
        self, inputs: list[Array], nest: Nest
    ) -> tuple[str, keras.Layer]:
        """Return the first layer whose output differs, with its path."""
        calls: list[tuple[str, keras.Layer, Any]] = []
        noted = keras_internals.layer_calls(lambda *call: calls.append(call))
        with keras.StatelessScope(), noted:
            self.model(nest, training=False)
        interpreter = Interpreter(self.traced, keeps_calls=True)
        with budget.anew(self.size), contextlib.suppress(LimitError):
            interpreter.run(self.trace, inputs)
        outputs_in_graph: dict[str, Sequence[Any]] = {}
        for call in interpreter.calls:
            outputs_in_graph.setdefault(call.scope, call.outputs)
        first = {path: (layer, output) for path, layer, output in reversed(calls)}
        for path, (layer, outputs) in reversed(first.items()):
            flat = keras.tree.flatten(outputs)
            if any(map(backend.is_traced, flat)):
                continue  # of a cell in a loop, compiled by jax
            arrays = map(keras.ops.convert_to_numpy, flat)
            pairs = zip(arrays, outputs_in_graph.get(path, ()), strict=False)
            if path and any(
                isinstance(wanted, np.ndarray)
                and not relative_difference(array, wanted) <= self.tolerance.share
                for array, wanted in pairs
            ):
                return path, layer
        return "", self.model


def _differs(path: str, layer: keras.Layer, what: str) -> LegacyModelError:
    where = f" The first layer that differs is {path!r}." if path else ""
    return LegacyModelError(
        f"it was rebuilt wrongly: it gives {what}.{where}",
        f"Pass its classes ({hints.CUSTOM_OBJECTS}), or write it in code and load its "
        f"weights; {hints.UNVERIFIED} opens it as it is.",
        suspects=own_classes.stock_names(layer),
        code="KP501",
    )


def _called(model: keras.Model, nest: Nest) -> list[Array]:
    try:
        return backend.outputs(model, nest)
    except Exception as error:  # layers raise any error
        shapes = [np.shape(x) for x in keras.tree.flatten(nest)]
        problem = f"it cannot be called on inputs of the shapes {shapes}"
        problem += ", which its own graph takes"
        raise _NotCalledError(explanations.explained(problem, error)) from error
