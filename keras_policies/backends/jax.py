"""JAX: inside compiled code the branch not taken must touch nothing."""

import contextlib
import itertools

import jax
import keras
import numpy as np
from keras import ops

from keras_policies.backends import eager

ALIGNMENT = 64  # bytes; jax takes an aligned array as its own, without a copy


def place(array):
    """Return a numpy array as one of jax: `jnp.asarray` compiles a copy per shape.

    It is copied once, and never again, to where jax will keep it.
    """
    memory = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    aligned = memory[start : start + array.nbytes].view(array.dtype)
    aligned = aligned.reshape(array.shape)
    aligned[...] = array
    return jax.device_put(aligned)


@contextlib.contextmanager
def unscaled(gradients, variables, scale, check):
    """Yield what gives the divided gradients, and the check if asked for.

    Small ones are divided within the step, where XLA makes that a part of the update,
    and are checked as one. Large ones it would divide anew for each slot there.
    """
    small = list(filter(eager.is_small, gradients))
    large = eager.unscale(itertools.filterfalse(eager.is_small, gradients), scale)

    def divide():
        made = iter(large)
        return [
            ops.divide(g, scale) if eager.is_small(g) else next(made) for g in gradients
        ]

    finite = None
    if check and gradients:
        finite = eager.all_finite([*large, *eager.unscale(eager.joined(small), scale)])
    yield divide, finite


def run_if(condition, step, variables):
    """Run `step()` if `condition`, under `jax.lax.cond` where it is traced."""
    if not isinstance(condition, jax.core.Tracer):
        return eager.run_if(condition, step, variables)

    written = variables()

    def taken(values):
        mapping = list(zip(written, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping) as scope:
            step()
        return [scope.get_current_value(v) for v in written]

    before = [v.value for v in written]
    after = jax.lax.cond(condition, taken, lambda values: values, before)
    for variable, value in zip(written, after, strict=True):
        variable.assign(value)
    return condition


def is_constant(variable, tensor):
    """Return whether the code that makes `tensor` is compiled, with no scope around.

    Under `jax.grad` alone a tensor has a value, and the variable that of this step.
    """
    is_given = variable is not None and isinstance(variable.value, jax.core.Tracer)
    if is_given or not isinstance(tensor, jax.core.Tracer):
        return False
    try:
        bool((tensor == 0).any())
    except jax.errors.ConcretizationTypeError:
        return True
    return False


def gradients(function, values):
    """Return the gradients of `function(values)`; zeros where it has none."""
    taken = jax.jit(jax.grad(function))(values)
    return [np.asarray(gradient, np.float32) for gradient in taken]
