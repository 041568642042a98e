"""The backend that Keras runs on; the others are never imported."""

import importlib

import keras

from keras_policies.backends import NAMES
from keras_policies.backends.protocol import Backend


def _running() -> Backend:
    name = keras.backend.backend()
    if name not in NAMES:  # such as NumPy, without gradients
        return Backend()
    module = importlib.import_module(f"keras_policies.backends.{name}")
    running: Backend = module.backend
    return running


backend = _running()
