"""Backends whose tensors always have a value: torch and numpy."""

import numpy as np
from keras import ops


def all_finite(gradients):
    """Return a bool scalar, whether every element of every gradient is finite."""
    return ops.all(ops.stack([ops.all(ops.isfinite(g)) for g in gradients]))


def run_if(condition, step, variables):
    """Run `step()` if `condition`; on a device this waits for its value."""
    if condition:
        step()


def place(array):
    """Return a copy of a numpy array, as a variable takes it."""
    return np.array(array)
