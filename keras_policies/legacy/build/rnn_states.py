"""Lets stateful RNNs go on from the states that a SavedModel records."""

from collections.abc import Mapping

import keras

from keras_policies import rnn_states
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.base.model import LegacyWeight
from keras_policies.legacy.build import targets, values


def restore(
    model: keras.Model, recorded: Mapping[str, tuple[LegacyWeight, ...]]
) -> None:
    """Fill the states of the stateful RNNs of a model, by their paths.

    Raises:
        LegacyModelError: if recorded states do not fit their layer.
    """
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
            state.assign(values.value_for(state, weight))
        rnn_states.keep_in_files(layer)
