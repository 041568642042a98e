"""Puts the tensors of a legacy file into the variables of a Keras 3 model."""

from collections.abc import Callable

import keras
import numpy as np

from keras_policies import keras_internals
from keras_policies.annotations import Tensor
from keras_policies.backends.running import backend
from keras_policies.legacy.base.model import LegacyWeight
from keras_policies.legacy.build.targets import Pairs

# How the name of a dtype begins -> the kind of its numbers.
KINDS = {"float": "float", "bfloat": "float", "int": "int", "uint": "int"}


def fits(variable: keras.Variable, weight: LegacyWeight) -> bool:
    """Return whether shape and kind of dtype (float, int, …) of both are equal."""
    kinds = [
        next((kind for start, kind in KINDS.items() if name.startswith(start)), name)
        for name in (str(variable.dtype), str(weight.dtype))
    ]
    return kinds[0] == kinds[1] and tuple(variable.shape) == weight.shape


def value_for(variable: keras.Variable, weight: LegacyWeight) -> Tensor:
    """Read a weight now, and return it as a value for its variable.

    The value is a copy: some backends would go on sharing the memory-mapped file.
    """
    return backend.place(np.asarray(weight.read(), dtype=variable.dtype))


def assign(pairs: Pairs, advance: Callable[[int], None]) -> None:
    """Read one weight after the other into its variable; `advance` counts the bytes."""
    for variable, weight in pairs:
        variable.assign(value_for(variable, weight))
        advance(weight.size)


def settle(model: keras.Model) -> None:
    """Let Normalization layers compute what they derive from their weights."""
    for layer in keras_internals.sublayers(model):
        if isinstance(layer, keras.layers.Normalization):
            layer.finalize_state()
