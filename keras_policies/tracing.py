"""The warning that compiled code holds the loss scale as a constant."""

import keras

from keras_policies.annotations import Tensor
from keras_policies.backends.running import backend
from keras_policies.warn import warn


def warn_if_constant(scale: keras.Variable | None, loss: Tensor, method: str) -> None:
    """Warn if code is being compiled that holds the present loss scale as a constant.

    A function under `jax.jit` reads a variable once, when it is traced, unless a
    `keras.StatelessScope` gives the variable a value: `stateless_apply` would move the
    scale, and the loss would be multiplied by the old one for ever.

    `loss` is about to be multiplied by the scale, or divided, in an optimizer's method.
    """
    if backend.is_constant(scale, loss):
        warn(
            f"{method} is compiled with the loss scale of this moment as a constant, "
            "and will not see it move. Build the optimizer, and call the method in "
            "`with keras.StatelessScope(state_mapping=[*zip(optimizer.variables, "
            "optimizer_variables)]):`, where optimizer_variables are those that "
            "stateless_apply is given."
        )
