"""Stateful RNNs go on from the states that a SavedModel of tf.keras records."""

import re

import keras
import legacy_files
import numpy as np
import pytest

import keras_policies
from keras_policies import keras_internals
from keras_policies.legacy.assembly.keras_differences import rnn_states

FOLDER = legacy_files.FOLDER / "states"
RELEASES = sorted(path.name for path in FOLDER.iterdir())


@pytest.fixture(params=RELEASES)
def recorded(request):
    folder = FOLDER / request.param
    return folder / "saved_model", dict(np.load(folder / "expected.npz"))


def next_output(model, x):
    return keras.ops.convert_to_numpy(keras.ops.stop_gradient(model(x)))


def first_output(model, x):
    """Return what the model predicts from states of zeros."""
    for layer in keras_internals.sublayers(model):
        for state in rnn_states.of(layer):  # reset_state raises in 3.8
            state.assign(np.zeros(state.shape, "float32"))
    return next_output(model, x)


def test_a_stateful_rnn_goes_on_from_the_recorded_states(recorded):
    path, expected = recorded
    model = keras_policies.load_model(path)
    for name in "y_0", "y_1":
        found = next_output(model, expected["x_0"])
        np.testing.assert_allclose(found, expected[name], atol=1e-6)


def test_without_its_states_it_would_predict_something_else(recorded):
    path, expected = recorded
    model = keras_policies.load_model(path)
    found = first_output(model, expected["x_0"])
    assert np.max(np.abs(found - expected["y_0"])) > 1e-4


def test_a_keras_file_keeps_the_states_that_the_model_has_reached(recorded, tmp_path):
    path, expected = recorded
    model = keras_policies.load_model(path)
    model.save(tmp_path / "first.keras")
    first = keras.models.load_model(tmp_path / "first.keras")
    found = next_output(first, expected["x_0"])
    np.testing.assert_allclose(found, expected["y_0"], atol=1e-6)
    first.save(tmp_path / "second.keras")
    second = keras.models.load_model(tmp_path / "second.keras")
    found = next_output(second, expected["x_0"])
    np.testing.assert_allclose(found, expected["y_1"], atol=1e-6)


def test_a_converted_file_goes_on_from_the_recorded_states(recorded, tmp_path):
    path, expected = recorded
    destination = tmp_path / "new.keras"
    converted = keras_policies.convert_model(path, destination)
    assert re.search("states, which plain Keras does not continue", converted.not_plain)
    model = keras.models.load_model(destination)
    found = next_output(model, expected["x_0"])
    np.testing.assert_allclose(found, expected["y_0"], atol=1e-6)


def test_plain_keras_opens_the_file_and_starts_from_zero(
    recorded, tmp_path, plain_keras
):
    path, expected = recorded
    model = keras_policies.load_model(path)
    model.save(tmp_path / "model.keras")
    (found,), _ = plain_keras(tmp_path / "model.keras", expected["x_0"])
    zero = first_output(model, expected["x_0"])
    np.testing.assert_allclose(found, zero, atol=1e-6)
