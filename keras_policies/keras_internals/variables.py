"""Variables: their raw values, and models whose weights are about to be read.

Keras: src/backend/common/variables.py.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import keras
import ml_dtypes
import numpy as np
from keras import backend, initializers

from keras_policies.keras_internals.patches import Function, owner_of, patched
from keras_policies.keras_internals.private_api import LOSS_SCALING, needs

# Both return what the constructor of a variable takes without computing.
Place = Callable[["np.ndarray[Any, Any]"], Any]
Zeros = Callable[[tuple[int, ...], "np.dtype[Any]"], Any]
Spend = Callable[[int, int], None]  # takes size and item size (bytes) of each array


@needs(LOSS_SCALING)
def raw_value(variable: keras.Variable) -> Any:
    """Return the backend's tensor of a variable; `value` looks for scopes first."""
    return variable._value


@contextlib.contextmanager
def blank_variables(place: Place, zeros: Zeros, spend: Spend) -> Iterator[None]:
    """Create variables without drawing, tracing or compiling their values.

    A variable with a constant initializer (an optimizer's slot, for example) gets its
    value from numpy. One with a random initializer is zero until it is assigned.
    `spend` raises if the arrays become too large. Other initializers in the configs
    would be saved with the model, and not be those of layers made in code.
    """

    def _init(
        stock: Function,
        self: keras.Variable,
        initializer: Any,
        shape: Any = None,
        dtype: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if isinstance(initializer, int | float) and dtype is not None:
            initializer = place(np.asarray(initializer, _numpy_dtype(dtype)))
        elif callable(initializer) or isinstance(initializer, str):
            initializer = _from_numpy(initializer, place, zeros, spend)
        stock(self, initializer, shape, dtype, *args, **kwargs)

    def initial_state(stock: Function, self: keras.layers.RNN, batch_size: Any) -> Any:
        # One state for each example. Keras fills them with zeros before it makes
        # variables of them.
        if isinstance(batch_size, int):
            sizes = keras.tree.flatten(self.cell.state_size)
            if hasattr(self.cell, "spatial_dims"):  # a convolution, with two pictures
                sizes = [2 * self.cell.filters * math.prod(self.cell.spatial_dims)]
            spend(batch_size * sum(sizes), 4)
        return stock(self, batch_size)

    with (
        patched(owner_of(keras.Variable, "__init__"), "__init__", _init),
        patched(keras.layers.RNN, "get_initial_state", initial_state),
    ):
        yield


def _from_numpy(initializer: Any, place: Place, zeros: Zeros, spend: Spend) -> Any:
    """Return an initializer with the values of `initializer`, made by numpy."""
    instance = initializers.get(initializer)
    if not isinstance(instance, initializers.Initializer):
        return initializer  # a function, of the user or of a seed generator
    value = 1 if type(instance) is initializers.Ones else None
    if isinstance(instance, initializers.Constant):
        value = instance.value

    def fill(shape: tuple[int, ...], dtype: Any = None, **kwargs: Any) -> Any:
        dtype = _numpy_dtype(dtype)
        spend(math.prod(shape), dtype.itemsize)
        if value is None:
            return zeros(shape, dtype)
        return place(np.full(shape, value, dtype))

    return fill


def _numpy_dtype(dtype: Any) -> np.dtype[Any]:
    name = str(backend.standardize_dtype(dtype))
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)
