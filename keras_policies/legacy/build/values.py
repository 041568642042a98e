"""Puts the tensors of a legacy file into the variables of a Keras 3 model."""

import math
from collections.abc import Callable

import keras
import numpy as np

from keras_policies import keras_internals, rnn_states
from keras_policies.annotations import Tensor
from keras_policies.backends.running import backend
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.base.model import LayerWeights, LegacyWeight
from keras_policies.legacy.build import targets
from keras_policies.legacy.build.targets import Pairs

# How the name of a dtype begins -> the kind of its numbers.
KINDS = {"float": "float", "bfloat": "float", "int": "int", "uint": "int"}


def fits(variable: keras.Variable, weight: LegacyWeight) -> bool:
    """Return whether shape and kind of dtype (float, int, …) of both are equal.

    The bias of a locally connected layer had its axes apart, or in another order.
    """
    kinds = [
        next((kind for start, kind in KINDS.items() if name.startswith(start)), name)
        for name in (str(variable.dtype), str(weight.dtype))
    ]
    own, stored = tuple(variable.shape), weight.shape
    is_bias = "bias" in variable.name and len(own) > 1 < len(stored)
    is_same = is_bias and math.prod(own) == math.prod(stored)
    is_moved = is_same and stored[-1] in (own[0], own[-1])
    return kinds[0] == kinds[1] and (own == stored or is_moved)


def value_for(variable: keras.Variable, weight: LegacyWeight) -> Tensor:
    """Read a weight now, and return it as a value for its variable, in its shape."""
    value = np.asarray(weight.read(), dtype=variable.dtype)
    return backend.place(value.reshape(variable.shape))


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


def restore_states(model: keras.Model, recorded: LayerWeights) -> None:
    """Let stateful RNNs go on from recorded states; `recorded` has these by path."""
    for layer, *paths in targets.layers(model):
        found = [recorded[path] for path in paths if path in recorded]
        states = rnn_states.of(layer)
        if not found or not states:
            continue
        weights = found[0]
        if [tuple(each.shape) for each in states] != [each.shape for each in weights]:
            with located(layer=paths[0]):
                raise LegacyModelError(
                    f"it has states of the shapes {[each.shape for each in weights]}, "
                    f"expected {[tuple(each.shape) for each in states]}."
                )
        for state, weight in zip(states, weights, strict=True):
            state.assign(value_for(state, weight))
        rnn_states.keep_in_files(layer)
