"""The backend that Keras runs on; the others are never imported."""

import importlib

import keras

from keras_policies.backends import NAMES
from keras_policies.backends.protocol import Backend

backend = Backend()  # for others, such as NumPy, which have no gradients
if keras.backend.backend() in NAMES:
    name = f"keras_policies.backends.{keras.backend.backend()}"
    backend = importlib.import_module(name).backend
