"""The gradients of a compiled model's loss on one batch."""

import keras
from keras import ops

from keras_policies.annotations import Arrays, Tensor
from keras_policies.backends.running import backend
from keras_policies.plots import batches
from keras_policies.plots.magnitudes import Floats


def gradients_of(
    model: keras.Model, x: Arrays, y: Arrays, scale: float = 1.0
) -> list[Floats]:
    """Return the gradients of a compiled model's loss, times a loss scale.

    There is one array for each of `model.trainable_variables` that the loss depends on.
    The loss is multiplied before the gradients are taken, in the dtypes in which the
    model computes, as in a training step. A model that is not built gets built;
    otherwise nothing in it changes: no weights, moving averages, seeds or metrics.

    Raises:
        ValueError: if the model is not compiled, or has nothing trainable, or x and y
            are not one batch of arrays.
    """
    if not model.compiled:
        raise ValueError(
            f"The model '{model.name}' is not compiled, so there is no loss to take "
            "gradients of. Call model.compile(optimizer, loss) first."
        )
    # Without a loss given to `compile`, a loss of `add_loss` may need no targets.
    batches.check(x, y, needs_y=model.loss is not None)
    x, y = batches.tensors(x), batches.tensors(y)
    with keras.StatelessScope():  # builds the model and its loss
        model.compute_loss(x=x, y=y, y_pred=model(x, training=False), training=False)
    variables = model.trainable_variables
    if not variables:
        raise ValueError(
            f"The model '{model.name}' has no trainable weights, so there are no "
            "gradients. Add a layer that has some, or set trainable=True."
        )
    others = model.non_trainable_variables

    def loss(values: list[Tensor]) -> Tensor:
        state = [*zip(variables, values, strict=True), *((v, v.value) for v in others)]
        with keras.StatelessScope(state_mapping=state, collect_losses=True):
            predicted = model(x, training=True)
            total = model.compute_loss(x=x, y=y, y_pred=predicted, training=True)
            return ops.multiply(ops.cast(total, "float32"), scale)

    return backend.gradients(loss, [v.value for v in variables])
