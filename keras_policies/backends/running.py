"""The backend that Keras runs on; the others are never imported."""

import importlib

import keras

from keras_policies.backends import NAMES
from keras_policies.backends.protocol import Backend


def _running() -> Backend:
    name = keras.backend.backend()
    module = f"keras_policies.backends.{name if name in NAMES else 'eager'}"
    found: Backend = importlib.import_module(module).backend
    return found


backend = _running()
