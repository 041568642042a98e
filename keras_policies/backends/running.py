"""The backend that Keras runs on; the others are never imported."""

import importlib

import keras

from keras_policies._common.types import Tensor
from keras_policies.backends import NAMES
from keras_policies.backends.protocol import Backend, Floats, ScalarFunction


class EagerBackend(Backend):
    """A backend without a module, such as NumPy: no gradients."""

    def gradients(self, function: ScalarFunction, values: list[Tensor]) -> list[Floats]:
        raise NotImplementedError(
            f"The {keras.backend.backend()} backend takes no gradients. Set "
            "KERAS_BACKEND to jax, tensorflow or torch."
        )


def _running() -> Backend:
    name = keras.backend.backend()
    if name not in NAMES:
        return EagerBackend()
    found: Backend = importlib.import_module(f"keras_policies.backends.{name}").backend
    return found


backend = _running()
