"""JAX: inside compiled code the branch not taken must touch nothing."""

import jax
import keras

from keras_policies.backends.eager import all_finite
from keras_policies.backends.eager import run_if as run_if_now

__all__ = ["all_finite", "place", "run_if"]


def place(array):
    """Return a numpy array as one of jax: `jnp.asarray` compiles a copy per shape."""
    return jax.device_put(array)


def run_if(condition, step, variables):
    """Run `step()` if `condition`, under `jax.lax.cond` where it is traced."""
    if not isinstance(condition, jax.core.Tracer):
        return run_if_now(condition, step, variables)

    def taken(values):
        mapping = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping) as scope:
            step()
        return [scope.get_current_value(v) for v in variables]

    before = [v.value for v in variables]
    after = jax.lax.cond(condition, taken, lambda values: values, before)
    for variable, value in zip(variables, after, strict=True):
        variable.assign(value)
