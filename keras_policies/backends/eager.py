"""A backend whose tensors always have a value: numpy; what the others share."""

import collections
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
    """Return a bool scalar, whether every element of every gradient is finite."""
    return ops.all(ops.stack([ops.all(ops.isfinite(x)) for x in joined(gradients)]))


def joined(gradients):
    """Return tensors with the elements of some gradients: small ones are joined.

    XLA takes long to compile many reductions.
    """
    small = collections.defaultdict(list)
    for gradient in filter(is_small, gradients):
        small[gradient.dtype].append(ops.ravel(gradient))
    large = [g for g in gradients if not is_small(g)]
    return [*large, *map(ops.concatenate, small.values())]


def is_small(gradient):
    """Return whether an operation on it takes longer than the arithmetic in it."""
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
