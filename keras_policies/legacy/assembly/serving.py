"""The signature that tf.keras traced by calling the model.

It traced other functions layer by layer: in those, tensors have no `_keras_mask` for
layers that read it, so where the two differ, the signature is right.
"""

import collections
import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from keras_policies._common.comparing import relative_difference
from keras_policies.legacy.assembly.examples import Run
from keras_policies.legacy.base.errors import LimitError
from keras_policies.legacy.base.traced_functions import (
    CALLS,
    PASSING,
    ConcreteFunction,
    TensorSpec,
    TracedFunctions,
)
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan.reconstruction import concrete_functions, in_training
from keras_policies.legacy.plan.reconstruction.reference import (
    Interpreter,
    NotInterpretedError,
)

# How often they occur depends on how functions call each other.
IGNORED = {*CALLS, *PASSING, "Const", "NoOp"}


@dataclasses.dataclass(frozen=True)
class Served:
    """A signature, None if a file has none, and the function that stands for it."""

    traced: TracedFunctions
    signature: ConcreteFunction | None
    trace: ConcreteFunction
    size: int  # of the file, in bytes

    @functools.cached_property
    def is_other(self) -> bool:
        """Whether the signature has other ops than the function, as for masks."""
        if self.signature is None:
            return False
        return self._ops(self.signature.function) != self._ops(self.trace.function)

    def outputs(self, specs: Sequence[TensorSpec], run: Run) -> list[Array]:
        """Return the outputs of the signature, or those of the function."""
        expected = [np.asarray(x) for x in run.outputs]
        if self.signature is None:
            return expected
        inputs = run.inputs
        taken = concrete_functions.specs(self.signature.inputs)
        if [spec.dtype for spec in taken] != [spec.dtype for spec in specs]:
            return expected
        names = [spec.name for spec in specs]
        if len(names) == len({*names}) and {*names} == {spec.name for spec in taken}:
            inputs = [inputs[names.index(spec.name)] for spec in taken]
        try:
            with budget.anew(self.size):
                outputs = Interpreter(self.traced).run(self.signature, inputs)
        except (NotInterpretedError, LimitError, ValueError):
            return expected
        served = []
        for each in expected:
            alike = [np.asarray(x) for x in outputs if np.shape(x) == each.shape]
            difference = functools.partial(relative_difference, expected=each)
            served.append(min(alike, key=difference, default=each))
        return served

    def _ops(self, function: str) -> collections.Counter[str]:
        """Return how often each op is in a function and in those that it calls."""
        bodies = in_training.bodies(self.traced, function)
        ops = (node.op for body in bodies for node in body.values())
        return collections.Counter(op for op in ops if op not in IGNORED)
