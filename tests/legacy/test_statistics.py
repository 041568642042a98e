"""Batch normalization in classes that are missing; by write_statistics.py."""

import warnings

import keras
import legacy_files
import numpy as np
import pytest

import keras_policies

ARCHIVE = legacy_files.FOLDER / "statistics.tar.xz"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return legacy_files.unpacked(tmp_path_factory.mktemp("statistics"), [ARCHIVE])


def opened(path):
    """Return a model, and what is said of it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = keras_policies.load_model(path)
    return model, " ".join(str(warning.message) for warning in caught)


@pytest.mark.parametrize("name", legacy_files.names(ARCHIVE))
def test_statistics_move_as_in_tensorflow_or_that_is_told(name, folder):
    model, said = opened(folder / name)
    stored = legacy_files.expected(folder / name)
    (found,) = legacy_files.called(model, stored["x"])
    np.testing.assert_allclose(found, stored["y"], atol=1e-5)
    is_told = "what these layers did in training was not all recognized" in said
    assert is_told == ("/neither/" not in name)
    model.compile(keras.optimizers.SGD(0.25), "mse")
    model.train_on_batch(stored["x"], np.ones((8, 1)))
    after = np.sort(np.concatenate([w.ravel() for w in model.get_weights()]))
    assert np.allclose(after, stored["after"], atol=1e-5) == (not is_told)
