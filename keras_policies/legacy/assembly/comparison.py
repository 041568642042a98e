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
from keras_policies._common.comparing import Tolerance, relative_difference
from keras_policies.backends import hardware
from keras_policies.backends.running import backend
from keras_policies.legacy.assembly import examples, explanations, own_classes
from keras_policies.legacy.assembly.examples import Example, UnsuitableError
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
    in_training,
    ir,
    program,
)
from keras_policies.legacy.plan.reconstruction.reference import (
    Interpreter,
    NotInterpretedError,
)
from keras_policies.legacy.texts.inputs import TextInputs

ROUNDINGS = 4  # times the observed effect of rounding is allowed


class Check(NamedTuple):
    """The result of comparing a model with its own graph."""

    # As a share of the largest number of an output; None if nothing was compared.
    difference: float | None
    reason: str | None = None  # why nothing was compared
    dropouts: tuple[str, ...] = ()  # scopes in which the graph drops numbers
    other_losses: str = ""  # how the losses of layers and weights differ
    example: Example | None = None  # the inputs and outputs that were compared

    def __str__(self) -> str:
        if self.difference is None:
            return f"not checked against its own graph: {self.reason}"
        return (
            "checked against its own graph: largest difference "
            f"{self.difference:.1g} of the largest output"
        )


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

    def check(self) -> Check:
        interpreter = Interpreter(self.traced)
        problems: list[_NotCalledError] = []
        for bound in (None, 2):  # numbers may be classes, of which there may be few
            try:
                inputs, expected = examples.accepted(
                    interpreter, self.trace, self._specs, bound, self._with_losses
                )
                return self._compared(interpreter, inputs, expected)
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

    def _as_served(self, inputs: list[Array], expected: list[Array]) -> list[Array]:
        """Return the outputs of the signature that tf.keras traced, if there is one.

        tf.keras traced it by calling the model, but other functions layer by layer: in
        those, tensors have no `_keras_mask` for layers that read it.
        """
        specs = concrete_functions.specs(self.trace.inputs)
        if self.served is None:
            return expected
        taken = concrete_functions.specs(self.served.inputs)
        if [spec.dtype for spec in taken] != [spec.dtype for spec in specs]:
            return expected
        names = [spec.name for spec in specs]
        if len(names) == len({*names}) and {*names} == {spec.name for spec in taken}:
            inputs = [inputs[names.index(spec.name)] for spec in taken]
        try:
            with budget.anew(self.size):
                outputs = Interpreter(self.traced).run(self.served, inputs)
        except (NotInterpretedError, LimitError, ValueError):
            return expected
        served = []
        for each in map(np.asarray, expected):
            alike = [np.asarray(x) for x in outputs if np.shape(x) == each.shape]
            difference = functools.partial(relative_difference, expected=each)
            served.append(min(alike, key=difference, default=each))
        return served

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

    def _compared(
        self, interpreter: Interpreter, inputs: list[Array], expected: list[Array]
    ) -> Check:
        nest = self._nest(inputs)
        examples.charge(self.model, inputs, self.size)
        outputs = _called(self.model, nest)
        of_functions, expected = expected, self._as_served(inputs, expected)
        if len(outputs) != len(expected):
            what = f"{len(outputs)} outputs, its own graph {len(expected)}"
            raise _differs("", self.model, what)
        pairs = [*zip(outputs, map(np.asarray, expected), strict=True)]
        problems = {i: p for i, pair in enumerate(pairs) if (p := self._problem(*pair))}
        if problems:
            rounded = self._rounding(inputs, of_functions)
            problems = {
                i: p
                for i, p in problems.items()
                if relative_difference(*pairs[i]) > rounded[i]
            }
        computes_in_half = self.tolerance > comparing.TOLERANCES["tensorfloat32"]
        if problems and computes_in_half and (fault := hardware.problem()):
            return Check(None, fault)
        for number, problem in problems.items():
            actual = np.asarray(of_functions[number])
            share = relative_difference(actual, expected[number])
            if not share <= max(self.tolerance.share, rounded[number]):
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
            try:
                first = self._first_difference(inputs, nest)
            except (NotInterpretedError, *UNEXPECTED):  # it differs, wherever that is
                first = "", self.model
            raise _differs(*first, f"{problem} for output {number}")
        self._check_regularizers(interpreter)
        shares = [relative_difference(*pair) for pair in pairs]
        allowed = [max(self.tolerance.share, 2 * share) for share in shares]
        return Check(
            max(shares, default=0.0),
            dropouts=tuple(interpreter.dropouts),
            other_losses=self._other_losses(interpreter, inputs, nest),
            example=Example(nest, [wanted for _, wanted in pairs], allowed),
        )

    @property
    def _with_losses(self) -> ConcreteFunction | None:
        """The function that returns the losses after the outputs, if there is one."""
        root = self.traced.layers.get(0)
        traces = root.traces_with_losses if root else ()
        candidates = concrete_functions.for_inference(traces)
        return next((t for t in candidates if t.inputs == self.trace.inputs), None)

    def _other_losses(
        self, interpreter: Interpreter, inputs: list[Array], nest: Nest
    ) -> str:
        """Return how the sum of all losses differs from that of the graph, or "".

        The model returns the absolute values of losses, and in inference also those
        that a layer added in training only.
        """
        trace = self._with_losses
        if trace is None or not (trace.losses or self.traced.regularizers):
            return ""
        self.model(nest, training=False)
        losses = map(keras.ops.convert_to_numpy, self.model.losses)
        total = sum(map(float, losses))
        try:
            traces = [trace, in_training.twin(self.traced.layers[0], trace)]
            sums = [self._losses(interpreter, t, inputs) for t in traces if t]
        except (NotInterpretedError, LimitError):  # an op that the outputs do not need
            return ""
        allowed = 10 * self.tolerance.share
        if any(np.isclose(total, loss, allowed, 1e-6) for loss in sums):
            return ""
        return f"they are {total:.6g} on inputs for which its graph has {sums[0]:.6g}"

    def _losses(
        self, interpreter: Interpreter, trace: ConcreteFunction, inputs: list[Array]
    ) -> float:
        """Return the sum of the absolute values of the losses in the graph."""
        count = len(concrete_functions.specs(trace.outputs))
        with budget.anew(self.size):
            losses = interpreter.run(trace, inputs)[count:]
            losses += [interpreter.run(x, [])[0] for x in self.traced.regularizers]
        return sum(float(abs(np.sum(loss))) for loss in losses)

    def _check_regularizers(self, interpreter: Interpreter) -> None:
        """Raise an error if a weight has a loss that the file does not record."""
        traces = self.traced.regularizers
        losses = [float(interpreter.run(trace, [])[0]) for trace in traces]
        for variable in self.model.weights if losses else ():
            regularizer = getattr(variable, "regularizer", None)
            if regularizer is None:
                continue
            loss = float(keras.ops.convert_to_numpy(regularizer(variable)))
            if not np.isclose(loss, losses, rtol=self.tolerance.share).any():
                name = type(regularizer).__name__
                raise LegacyModelError(
                    f"its {name} gives {variable.path!r} the loss {loss:.6g}; the "
                    f"file records {losses}.",
                    f"Pass your own: {hints.custom_object(name)}.",
                    suspects=[name],
                    code="KP501",
                )

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

    def _rounding(self, inputs: list[Array], expected: list[Array]) -> list[float]:
        """Return the share by which rounding may change each output.

        To find out, the graph is also computed in float32: deep models round float16
        more than the tolerance. GPUs multiply float32 with the 10 bits of TF32.
        """
        with budget.anew(self.size):
            wide = Interpreter(self.traced, is_wide=True).run(self.trace, inputs)
        pairs = zip(map(np.asarray, expected), map(np.asarray, wide), strict=False)
        least = comparing.rounding_of_products()
        return [ROUNDINGS * max(least, relative_difference(*pair)) for pair in pairs]

    def _problem(self, actual: Array, expected: Array) -> str:
        """Return how an output differs from that of the graph, or ""."""
        if actual.shape != expected.shape:
            return f"the shape {actual.shape}, its own graph {expected.shape},"
        share = relative_difference(actual, expected)
        if share <= self.tolerance.share:  # NaN is not <= anything
            return ""
        return f"other numbers than its own graph (by {share:.1g} of the largest)"

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
                isinstance(wanted, np.ndarray) and self._problem(array, wanted)
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
