"""Backends whose tensors always have a value, such as numpy."""

from collections.abc import Callable

import keras
import numpy as np
import numpy.typing as npt

from keras_policies.annotations import Tensor
from keras_policies.backends.protocol import Backend


class EagerBackend(Backend):
    """NumPy: what all backends share, and no gradients."""

    def gradients(
        self, function: Callable[[list[Tensor]], Tensor], values: list[Tensor]
    ) -> list[npt.NDArray[np.float32]]:
        raise NotImplementedError(
            f"The {keras.backend.backend()} backend takes no gradients. Set "
            "KERAS_BACKEND to jax, tensorflow or torch."
        )


backend: Backend = EagerBackend()
