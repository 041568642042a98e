"""Stateful RNNs go on from the states that a SavedModel of tf.keras records."""

import subprocess
import sys

import keras
import legacy_files
import numpy as np
import pytest

import keras_policies
from keras_policies import rnn_states

FOLDER = legacy_files.FOLDER / "states"
RELEASES = sorted(path.name for path in FOLDER.iterdir())
PLAIN = """
import sys, keras, numpy as np
model = keras.models.load_model(sys.argv[1])
print(float(np.abs(np.asarray(model.layers[0].states[0].numpy())).max()))
"""


@pytest.fixture(params=RELEASES)
def recorded(request):
    folder = FOLDER / request.param
    return folder / "saved_model", dict(np.load(folder / "expected.npz"))


def next_output(model, x):
    return keras.ops.convert_to_numpy(keras.ops.stop_gradient(model(x)))


def test_a_stateful_rnn_goes_on_from_the_recorded_states(recorded):
    path, expected = recorded
    model = keras_policies.load_model(path)
    for name in "y_0", "y_1":
        found = next_output(model, expected["x_0"])
        np.testing.assert_allclose(found, expected[name], atol=1e-6)


def test_without_its_states_it_would_predict_something_else(recorded):
    path, expected = recorded
    model = keras_policies.load_model(path)
    for state in rnn_states.of(model.get_layer("lstm")):  # reset_state raises in 3.8
        state.assign(np.zeros(state.shape, "float32"))
    found = next_output(model, expected["x_0"])
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
    keras_policies.convert_model(path, destination)
    model = keras.models.load_model(destination)
    found = next_output(model, expected["x_0"])
    np.testing.assert_allclose(found, expected["y_0"], atol=1e-6)


def test_plain_keras_opens_the_file_and_starts_from_zero(recorded, tmp_path):
    model = keras_policies.load_model(recorded[0])
    model.save(tmp_path / "model.keras")
    command = [sys.executable, "-c", PLAIN, tmp_path / "model.keras"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert float(done.stdout.split()[-1]) == 0.0
