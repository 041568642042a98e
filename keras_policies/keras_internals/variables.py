"""Variables: an optimizer's slots, and models whose weights are about to be read."""

import contextlib
import math
import threading

import ml_dtypes
import numpy as np
from keras import backend, initializers
from keras.src.backend.common.variables import Variable as KerasVariable

from keras_policies.keras_internals.seams import wrap


def slot(optimizer, attribute, variable):
    """Return an optimizer's slot for a variable, or None if it has no such slot.

    Keras: src/optimizers/*.py keep the slots in lists, such as `_momentums`.
    """
    slots = getattr(optimizer, attribute, None)
    return slots[optimizer._get_variable_index(variable)] if slots else None


def raw_value(variable):
    """Return the backend's tensor of a variable, whatever scope is entered.

    Keras: src/backend/common/variables.py, `Variable.value` looks for scopes first.
    """
    return variable._value


def nadam_product(optimizer):
    """Return the variable in which Nadam keeps the product of its momenta."""
    return optimizer._u_product


_blank = threading.local()


@contextlib.contextmanager
def blank_variables(place, spend):
    """Within, variables come without drawing, tracing or compiling a value.

    Those of a constant initializer (an optimizer's slots) get their value from
    numpy; those of a random one are zero, and are to be assigned.

    Args:
        place: callable, turns a numpy array into what a variable takes at once.
        spend: callable, told the size and the item size of each array beforehand; it
            raises if there are too many.
    """
    _blank.place, _blank.spend = place, spend
    try:
        yield
    finally:
        _blank.place = None


def _from_numpy(initializer, place):
    """Return an initializer with the values of `initializer`, made by numpy."""
    known = initializers.get(initializer)
    if not isinstance(known, initializers.Initializer):
        return initializer  # a function of the user's, or of a seed generator
    value = {initializers.Ones: 1}.get(type(known), 0)
    if isinstance(known, initializers.Constant):
        value = known.value

    def fill(shape, dtype=None, **kwargs):
        dtype = _numpy_dtype(dtype)
        _blank.spend(math.prod(shape), dtype.itemsize)
        return place(np.full(shape, value, dtype))

    return fill


def _numpy_dtype(dtype):
    name = backend.standardize_dtype(dtype)
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def _make_variables_blankable():
    """Let `blank_variables` decide how a variable gets its first value.

    Keras: src/backend/common/variables.py, `Variable.__init__`.
    """

    def make_wrapper(stock):
        def __init__(self, initializer, shape=None, dtype=None, *args, **kwargs):
            place = getattr(_blank, "place", None)
            if place is not None:
                if isinstance(initializer, int | float) and dtype is not None:
                    initializer = place(np.asarray(initializer, _numpy_dtype(dtype)))
                elif callable(initializer) or isinstance(initializer, str):
                    initializer = _from_numpy(initializer, place)
            stock(self, initializer, shape, dtype, *args, **kwargs)

        return __init__

    wrap(KerasVariable, "__init__", make_wrapper)


_make_variables_blankable()
