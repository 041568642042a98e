"""What is said when compiled code would take the loss scale for a constant."""

import warnings

from keras_policies import backends


def warn_if_constant(scale, loss, method):
    """Warn if code is compiled with the loss scale of this moment.

    In a function under `jax.jit` a variable is read once, when it is traced, unless a
    `keras.StatelessScope` says what its value is: the scale would move in
    `stateless_apply`, and the loss be multiplied by the old one for ever.

    Args:
        scale: `keras.Variable` of the loss scale, or None before there is one.
        loss: tensor that is about to be multiplied by it, or divided.
        method: str, the method of the optimizer that was called.
    """
    if not backends.is_constant(scale, loss):
        return
    warnings.warn(
        f"{method} is compiled with the loss scale of this moment as a constant, and "
        "will not see it move. Build the optimizer, and call the method in `with "
        "keras.StatelessScope(state_mapping=[*zip(optimizer.variables, "
        "optimizer_variables)]):`, where optimizer_variables are those that "
        "stateless_apply is given.",
        stacklevel=4,
    )
