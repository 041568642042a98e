"""JAX: inside compiled code the branch not taken must touch nothing."""

import contextlib
import functools
from contextlib import AbstractContextManager
from typing import Any

import jax
import keras
import numpy as np
import numpy.typing as npt
from jax.experimental.sparse import JAXSparse
from keras import ops

from keras_policies._common.types import Tensor, Tensors, Variables
from keras_policies.backends.protocol import (
    Backend,
    Floats,
    GetVariables,
    ScalarFunction,
    Step,
    StepGradients,
    is_small,
    join_small,
)

# Options for a function that runs once on a CPU: it compiles three times as fast.
ONCE = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}


class JaxBackend(Backend):
    """JAX: conditions are `jax.lax.cond`, and XLA takes small gradients into it."""

    def unscaled_in_step(
        self, gradients: Tensors, variables: Variables, scale: Tensor, check: bool
    ) -> AbstractContextManager[StepGradients]:
        # Small gradients are divided within the step, where XLA fuses the division into
        # the update, and are checked as one. XLA would divide large ones again for
        # each slot there.
        little = [g for g in gradients if _is_small(g)]
        large = self.unscale([g for g in gradients if not _is_small(g)], scale)

        def make() -> list[Tensor]:
            left = iter(large)
            return [
                ops.divide(g, scale) if _is_small(g) else next(left) for g in gradients
            ]

        finite = None
        if check and gradients:
            joined = self.unscale(join_small(little), scale)
            finite = self.all_finite([*large, *joined])
        return contextlib.nullcontext(StepGradients(make, finite))

    def all_finite(self, gradients: Tensors) -> Tensor:
        return super().all_finite(
            [g.data if isinstance(g, JAXSparse) else g for g in gradients]
        )

    def run_if(self, condition: Tensor, step: Step, variables: GetVariables) -> Tensor:
        if not isinstance(condition, jax.core.Tracer):
            return super().run_if(condition, step, variables)

        written = variables()

        def run_step(values: list[Tensor]) -> list[Tensor]:
            mapping = list(zip(written, values, strict=True))
            with keras.StatelessScope(state_mapping=mapping) as scope:
                step()
            return [scope.get_current_value(v) for v in written]

        before = [v.value for v in written]
        after = jax.lax.cond(condition, run_step, lambda values: values, before)
        for variable, value in zip(written, after, strict=True):
            variable.assign(value)
        return condition

    def is_constant(self, value: Tensor) -> bool:
        # Inside a `keras.StatelessScope` the value of a variable is traced too. Where
        # code is compiled, even new zeros are; under `jax.grad` alone they are not.
        return not self.is_traced(value) and self.is_traced(ops.zeros(()))

    def is_traced(self, tensor: Tensor) -> bool:
        return isinstance(tensor, jax.core.Tracer)

    def place(self, array: npt.NDArray[Any]) -> Tensor:
        # `jnp.asarray` compiles a copy for each shape. This keeps aligned memory.
        return jax.device_put(array)

    def in_float64(self) -> AbstractContextManager[Any]:
        # It was experimental before jax 0.8.
        owner = jax if hasattr(jax, "enable_x64") else jax.experimental
        context: AbstractContextManager[Any] = owner.enable_x64(True)  # noqa: FBT003 (no name)
        return context

    def outputs(self, model: keras.Model, inputs: Any) -> list[npt.NDArray[Any]]:
        # Compiled as a whole: each op by itself takes five times as long.
        def call(trained: list[Tensor], others: list[Tensor], inputs: Any) -> Any:
            return model.stateless_call(trained, others, inputs, training=False)[0]

        trained, others = model.trainable_variables, model.non_trainable_variables
        values = [[variable.value for variable in vs] for vs in (trained, others)]
        try:
            compiled = _compiled_quickly(jax.jit(call).lower(*values, inputs))
            results = compiled(*values, inputs)
        except Exception:  # code of the user's that cannot be traced
            return super().outputs(model, inputs)
        return [np.asarray(array) for array in keras.tree.flatten(results)]

    def gradients(self, function: ScalarFunction, values: list[Tensor]) -> list[Floats]:
        gradients = jax.jit(jax.grad(function))(values)
        return [np.asarray(gradient, np.float32) for gradient in gradients]


backend: Backend = JaxBackend()


def _compiled_quickly(lowered: Any) -> Any:
    """Return a lowered function compiled to run once, without optimizing it."""
    if jax.default_backend() == "cpu":
        return lowered.compile(compiler_options=_known())
    return lowered.compile()


@functools.cache
def _known() -> dict[str, Any]:
    """Return the options in `ONCE` that this jaxlib has."""
    nothing, known = jax.jit(lambda: 0).lower(), {}
    for name, value in ONCE.items():
        with contextlib.suppress(Exception):
            nothing.compile(compiler_options={name: value})
            known[name] = value
    return known


def _is_small(gradient: Tensor) -> bool:
    return not isinstance(gradient, JAXSparse) and is_small(gradient)
