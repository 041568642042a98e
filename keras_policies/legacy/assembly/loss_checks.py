"""Compares the losses of layers and weights with those of the graph."""

import dataclasses

import keras
import numpy as np

from keras_policies._common.comparing import Tolerance
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.errors import LegacyModelError, LimitError
from keras_policies.legacy.base.traced_functions import (
    ConcreteFunction,
    Nest,
    TracedFunctions,
)
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan.reconstruction import concrete_functions, in_training
from keras_policies.legacy.plan.reconstruction.reference import (
    Interpreter,
    NotInterpretedError,
)


def with_losses(
    traced: TracedFunctions, trace: ConcreteFunction
) -> ConcreteFunction | None:
    """Return the function that returns losses after the outputs, if there is one."""
    root = traced.layers.get(0)
    traces = root.traces_with_losses if root else ()
    candidates = concrete_functions.for_inference(traces)
    return next((t for t in candidates if t.inputs == trace.inputs), None)


@dataclasses.dataclass(frozen=True)
class Losses:
    """The losses of a model, and of the graph in its own file."""

    model: keras.Model
    traced: TracedFunctions
    trace: ConcreteFunction | None  # returns them after the outputs
    tolerance: Tolerance
    size: int  # of the file, in bytes

    def different(
        self, interpreter: Interpreter, inputs: list[Array], nest: Nest
    ) -> str:
        """Return how the sum of all losses differs from that of the graph, or "".

        The model returns the absolute values of losses, and in inference also those
        that a layer added in training only.
        """
        trace = self.trace
        if trace is None or not (trace.losses or self.traced.regularizers):
            return ""
        self.model(nest, training=False)
        losses = map(keras.ops.convert_to_numpy, self.model.losses)
        total = sum(map(float, losses))
        try:
            traces = [trace, in_training.twin(self.traced.layers[0], trace)]
            sums = [self._sum(interpreter, t, inputs) for t in traces if t]
        except (NotInterpretedError, LimitError):  # an op that the outputs do not need
            return ""
        allowed = 10 * self.tolerance.share
        if any(np.isclose(total, loss, allowed, 1e-6) for loss in sums):
            return ""
        return f"they are {total:.6g} on inputs for which its graph has {sums[0]:.6g}"

    def _sum(
        self, interpreter: Interpreter, trace: ConcreteFunction, inputs: list[Array]
    ) -> float:
        """Return the sum of the absolute values of the losses in the graph."""
        count = len(concrete_functions.specs(trace.outputs))
        with budget.anew(self.size):
            losses = interpreter.run(trace, inputs)[count:]
            losses += [interpreter.run(x, [])[0] for x in self.traced.regularizers]
        return sum(float(abs(np.sum(loss))) for loss in losses)

    def check_regularizers(self, interpreter: Interpreter) -> None:
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
                    f"Pass its regularizer ({hints.CUSTOM_OBJECTS}); "
                    f"{hints.UNVERIFIED} opens it as it is.",
                    suspects=[name],
                    code="KP501",
                )
