"""`Backend`: the operations that each backend does in its own way.

A backend overrides those that it does better, or that its compiled code needs
otherwise. Except `gradients`, all work as they are wherever operations run eagerly.

To add a backend:

1. Write `backends/<name>.py` with an object `backend` of a subclass of `Backend`.
2. Enter its name in `NAMES` of `backends/__init__.py` and in `tools/all_backends.py`.
   Add an extra to `pyproject.toml`, and that to `test`.
3. `KERAS_BACKEND=<name> pytest tests/scaling/test_backends.py` tests each member. Then
   run all tests, add a loop to `docs/training-loops.md`, and rows where
   `grep -rn '"torch"' tests` finds tables.
"""

import collections
import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_policies._common import memory as aligned
from keras_policies._common.types import Tensor, Tensors, Variables

SMALL = 1024  # elements: an operation on fewer takes longer than their arithmetic
Floats: TypeAlias = npt.NDArray[np.float32]
Step: TypeAlias = Callable[[], None]
GetVariables: TypeAlias = Callable[[], list[keras.Variable]]
Rule: TypeAlias = Callable[..., Tensors]  # from and to a tensor or NumPy scalar each
ScalarFunction: TypeAlias = Callable[[list[Tensor]], Tensor]  # returns a scalar


@dataclasses.dataclass(frozen=True)
class StepGradients:
    """The gradients of the unscaled loss, which a training step applies."""

    make: Callable[[], list[Tensor]]  # called inside the step, which may divide
    finite: Tensor | None  # bool scalar; None if nobody asked, or without gradients


class Backend:
    """The operations that each backend does in its own way."""

    def unscale(self, gradients: Tensors, scale: Tensor) -> list[Tensor]:
        """Return each gradient divided by the loss scale, in float32 or wider."""
        return [ops.divide(gradient, scale) for gradient in gradients]

    def all_finite(self, gradients: Tensors) -> Tensor:
        """Return a bool scalar, whether no element is NaN or infinite."""
        checks = [ops.all(ops.isfinite(x)) for x in join_small(gradients)]
        return ops.all(ops.stack(checks))

    def unscaled_in_step(
        self, gradients: Tensors, variables: Variables, scale: Tensor, check: bool
    ) -> AbstractContextManager[StepGradients]:
        """Return a context for a step with gradients divided by a float32 scalar."""
        divided = self.unscale(gradients, scale)
        finite = self.all_finite(divided) if check and divided else None
        return contextlib.nullcontext(StepGradients(lambda: divided, finite))

    def run_if(self, condition: Tensor, step: Step, variables: GetVariables) -> Tensor:
        """Run `step()` only where a condition holds, on every replica.

        The condition, a bool scalar tensor, is returned as an `np.bool_` if its value
        is known by then; here this waits for the device. The step assigns only to
        `variables()`, the variables that exist at the call.
        """
        holds = np.bool_(bool(condition))
        if holds:
            step()
        return holds

    def update(self, variables: Variables, rule: Rule) -> None:
        """Assign new values to scalar variables, as a rule computes them."""
        values = rule(*map(ops.convert_to_tensor, variables))
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)

    def is_constant(self, value: Tensor) -> bool:
        """Return whether code is being compiled with a variable's value as a constant.

        It is not if the code reads the variable each time it runs.
        """
        return False

    def is_traced(self, tensor: Tensor) -> bool:
        """Return whether a tensor belongs to code that is being compiled."""
        return False

    def version(self, tensor: Tensor) -> int:
        """Return how often a tensor was changed in place, if the backend counts."""
        return 0

    def watch(self, variables: Variables) -> Callable[[Tensors], bool]:
        """Watch the next backward pass, until the returned function is called.

        Given gradients, it returns whether one was changed in place since that pass.
        """
        return lambda gradients: False

    def read_once(self, variables: GetVariables) -> AbstractContextManager[Any]:
        """Return a context in which a graph reads `variables()` once until written."""
        return contextlib.nullcontext()

    def place(self, array: npt.NDArray[Any]) -> Tensor:
        """Return an array for a variable, which may keep its memory, uncompiled."""
        return array

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
        """Return zeros, as a variable takes them, in memory that is not yet touched."""
        return self.place(aligned.zeros(shape, dtype))

    def in_float64(self) -> AbstractContextManager[Any]:
        """Return a context in which float64 is not narrowed to float32."""
        return contextlib.nullcontext()

    def outputs(self, model: keras.Model, inputs: Any) -> list[npt.NDArray[Any]]:
        """Return the outputs of a model outside of training, flat; no state changes."""
        with keras.StatelessScope():
            results = model(inputs, training=False)
        return [ops.convert_to_numpy(tensor) for tensor in keras.tree.flatten(results)]

    def gradients(self, function: ScalarFunction, values: list[Tensor]) -> list[Floats]:
        """Return float32 gradients of a scalar function; zeros for unused values."""
        raise NotImplementedError(
            f"The {keras.backend.backend()} backend takes no gradients. Set "
            "KERAS_BACKEND to jax, tensorflow or torch."
        )


def is_small(tensor: Tensor) -> bool:
    """Return whether a tensor of known shape is a small one."""
    size: int = math.prod(tensor.shape)
    return size <= SMALL


def join_small(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Join small tensors of a dtype: XLA takes long to compile many reductions."""
    small: dict[str, list[Tensor]] = collections.defaultdict(list)
    large = []
    for tensor in tensors:
        if is_small(tensor):
            small[tensor.dtype].append(ops.ravel(tensor))
        else:
            large.append(tensor)
    return [*large, *map(ops.concatenate, small.values())]
