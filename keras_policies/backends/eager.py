"""Backends whose tensors always have a value, such as numpy."""

import keras

from keras_policies.annotations import Tensor
from keras_policies.backends.protocol import Backend, Floats, ScalarFunction


class EagerBackend(Backend):
    """NumPy: what all backends share, and no gradients."""

    def gradients(self, function: ScalarFunction, values: list[Tensor]) -> list[Floats]:
        raise NotImplementedError(
            f"The {keras.backend.backend()} backend takes no gradients. Set "
            "KERAS_BACKEND to jax, tensorflow or torch."
        )


backend: Backend = EagerBackend()
