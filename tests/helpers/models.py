"""Calls models, lists their layers, and compares arrays."""

import keras
import numpy as np
from legacy_files import called

from keras_policies import keras_internals


def assert_close(found, expected, tolerance):
    """Compare arrays, to a share of the largest expected number."""
    assert found.shape == expected.shape
    largest = max(float(np.max(np.abs(expected), initial=0)), 1e-6)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * largest)


def assert_moved(found, expected, allowed):
    """Compare weights after a step, to an absolute difference."""
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=allowed)


def layers_in(model):
    """Return `{class}` of all stock layers in a model, without inputs."""
    found = {type(layer).__name__ for layer in keras_internals.sublayers(model)}
    return found - {"InputLayer", "Functional"}


def called_by_name(model, x):
    """Return the outputs of a model by name, as arrays."""
    with keras_internals.texts_as_inputs():
        inputs = x if len(x) > 1 else next(iter(x.values()))
        flat = called(model, inputs)
    found = keras.tree.pack_sequence_as(model.output, flat)
    return found if isinstance(found, dict) else {"": found}
