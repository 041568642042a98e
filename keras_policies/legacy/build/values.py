"""Puts the tensors of a legacy file into the variables of a Keras 3 model."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_policies import backends, keras_internals
from keras_policies.annotations import Tensor
from keras_policies.legacy.base.model import LegacyWeight
from keras_policies.legacy.build.targets import Pairs

# The beginning of a dtype's name -> the kind of its numbers.
KINDS = {"float": "float", "bfloat": "float", "int": "int", "uint": "int"}


def fits(variable: keras.Variable, weight: LegacyWeight) -> bool:
    """Return whether shape and kind of dtype (float, int, …) of both are equal."""
    same_kind = _kind(weight.dtype) == _kind(variable.dtype)
    return same_kind and tuple(variable.shape) == weight.shape


def _kind(dtype: Any) -> str:
    name = str(dtype)
    return next((KINDS[start] for start in KINDS if name.startswith(start)), name)


def value_for(variable: keras.Variable, weight: LegacyWeight) -> Tensor:
    """Read a weight now, and return it as a value for its variable.

    The value is a copy: some backends would go on sharing the memory-mapped file.
    """
    return backends.place(np.asarray(weight.read(), dtype=variable.dtype))


def assign(pairs: Pairs, advance: Callable[[int], None]) -> None:
    """Read the weights one at a time, and put each into its variable.

    Args:
        pairs: the variables and their weights.
        advance: is called with the size of each tensor, in bytes, once it is assigned.
    """
    for variable, weight in pairs:
        variable.assign(value_for(variable, weight))
        advance(int(np.prod(weight.shape)) * weight.dtype.itemsize)


def settle(model: keras.Model) -> None:
    """Let Normalization layers compute what they derive from their weights."""
    for layer in keras_internals.sublayers(model):
        if isinstance(layer, keras.layers.Normalization):
            layer.finalize_state()
