"""Compares models of keras.applications with what TensorFlow recorded."""

import keras
import numpy as np
from legacy_files import called

import keras_policies

FLOAT32_LIMIT = 1e-3  # of the largest output; the models have up to 430 layers
FLOAT16_LIMIT = 5e-3  # for a model of a few layers


def _outputs(path, x, **options):
    model = keras_policies.load_model(path, compile=False, **options)
    (found,) = called(model, x)
    keras.backend.clear_session()
    return found.astype("float64")


def error(path):
    """Return `(error, limit)`, relative to the largest recorded output.

    In a deep float16 model, rounding differs from machine to machine. The limit for
    float16 therefore adds twice the error of TensorFlow's own float16 outputs.
    """
    with np.load(path.parent / "expected.npz") as stored:
        x, wanted = stored["x_0"], stored["y_0"].astype("float64")
    scale = np.max(np.abs(wanted))
    found = np.max(np.abs(_outputs(path, x) - wanted)) / scale
    if path.parent.name.endswith("float32"):
        return found, FLOAT32_LIMIT
    exact = _outputs(path, x, dtype_policy="float32")
    return found, FLOAT16_LIMIT + 2 * np.max(np.abs(exact - wanted)) / scale
