"""A backend whose tensors always have a value: numpy; what the others share."""

import contextlib
import math

import keras
import numpy as np
from keras import ops

SMALL = 1024  # elements


def unscale(gradients, scale):
    """Return each gradient divided by `scale`; Keras promotes it to float32."""
    return [ops.divide(gradient, scale) for gradient in gradients]


def all_finite(gradients):
    """Return a bool scalar, whether every element of every gradient is finite.

    Small gradients are looked at as one: XLA takes long over many reductions.
    """
    small = [ops.ravel(g) for g in gradients if _is_small(g)]
    tensors = [g for g in gradients if not _is_small(g)]
    if small:
        tensors.append(ops.concatenate(small))
    return ops.all(ops.stack([ops.all(ops.isfinite(x)) for x in tensors]))


def _is_small(gradient):
    return math.prod(gradient.shape) <= SMALL


@contextlib.contextmanager
def unscaled(gradients, variables, scale, check):
    """Yield what gives the divided gradients, and the check if asked for."""
    divided = unscale(gradients, scale)
    yield lambda: divided, all_finite(divided) if check and divided else None


def run_if(condition, step, variables):
    """Run `step()` if `condition`; on a device this waits for its value."""
    condition = np.bool_(bool(condition))
    if condition:
        step()
    return condition


def update(variables, rule):
    """Assign to variables what `rule` makes of their values."""
    moved = rule(*map(ops.convert_to_tensor, variables))
    for variable, value in zip(variables, moved, strict=True):
        variable.assign(value)


def place(array):
    """Return a copy of a numpy array, as a variable takes it."""
    return np.array(array)


def is_constant(variable, tensor):
    """Return False: variables are read when a step is made, compiled or not."""
    return False


def read_once(variables):
    """Read as ever: reading costs nothing here."""
    return contextlib.nullcontext()


def gradients(function, values):
    """Refuse: NumPy takes no gradients."""
    raise NotImplementedError(
        f"The {keras.backend.backend()} backend takes no gradients. Set KERAS_BACKEND "
        "to jax, tensorflow or torch."
    )
