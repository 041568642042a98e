"""Warnings about training loops that do not use the loss scale as they must."""

import keras

from keras_policies.annotations import Tensor
from keras_policies.backends.running import backend
from keras_policies.loss_scale import LossScale
from keras_policies.warn import warn

# Methods that a wrapper has of its own: it calls `apply` of its inner optimizer. On
# TensorFlow no optimizer has a `stateless_apply` that works.
BYPASSED = ["apply_gradients", "scale_loss"]
if keras.backend.backend() != "tensorflow":
    BYPASSED.append("stateless_apply")


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


def warn_that_nothing_scales(rule: LossScale) -> None:
    """Warn that gradients are divided by a loss scale that nothing has asked for."""
    warn(
        "LossScaleOptimizer divides the gradients by the loss scale, which is "
        f"{rule.initial_loss_scale:g} at first, but nothing has multiplied the loss by "
        "it: the weights will hardly move. Take the gradients of a scaled loss and "
        "unscale them (in a train_step, optimizer is self.optimizer):\n"
        "    scaled_loss = optimizer.get_scaled_loss(loss)\n"
        "    gradients = optimizer.get_unscaled_gradients(gradients)"
    )


def warn_if_bypassed(inner: keras.optimizers.Optimizer) -> None:
    """Warn if an inner optimizer overrides a method that its wrapper never calls."""
    for name in BYPASSED:
        method = getattr(type(inner), name)
        if not method.__module__.startswith("keras."):
            warn(
                f"{type(inner).__name__} overrides {name}, which LossScaleOptimizer "
                "does not call: it calls apply of its inner optimizer. Override apply "
                "instead, to clip gradients, for example."
            )
