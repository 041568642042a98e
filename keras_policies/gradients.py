"""The gradients of a model on a batch, and how large they are, for `plot_gradients`."""

import dataclasses

import keras
import numpy as np
from keras import ops

from keras_policies import batches, keras_internals
from keras_policies.backends.running import backend

LARGEST = 1100  # more than any exponent of a float64


@dataclasses.dataclass(frozen=True)
class Magnitudes:
    """How large the numbers in some arrays are.

    Args:
        counts: dict of int to int, `{n: how many x have 2**n <= abs(x) < 2**(n + 1)}`.
        zeros: int, how many are zero.
        non_finite: int, how many are infinite or NaN.
    """

    counts: dict[int, int]
    zeros: int
    non_finite: int

    @property
    def total(self):
        """int, how many numbers there are."""
        return sum(self.counts.values()) + self.zeros + self.non_finite


def magnitudes(arrays):
    """Return the `Magnitudes` of the numbers in some numpy arrays.

    Example:
        >>> magnitudes([np.array([0.0, 0.75, -3.0, np.inf]), np.array([2.0])])
        Magnitudes(counts={-1: 1, 1: 2}, zeros=1, non_finite=1)
    """
    counts = np.zeros(2 * LARGEST, np.int64)
    zeros = non_finite = 0
    for array in arrays:
        finite = array[np.isfinite(array)]
        non_finite += array.size - finite.size
        other = finite[finite != 0]
        zeros += finite.size - other.size
        # frexp has its fractions between a half and one.
        exponents = np.frexp(other)[1] - 1 + LARGEST
        counts += np.bincount(exponents, minlength=counts.size)
    found = {int(n) - LARGEST: int(counts[n]) for n in np.flatnonzero(counts)}
    return Magnitudes(found, zeros, non_finite)


def zeros_in_both(first, second):
    """Return how many numbers are zero both in some arrays and in others like them.

    Example:
        >>> zeros_in_both([np.array([0.0, 0.0, 1.0])], [np.array([0.0, 2.0, 0.0])])
        1
    """
    pairs = zip(first, second, strict=True)
    return sum(int(np.count_nonzero((a == 0) & (b == 0))) for a, b in pairs)


def gradients_of(model, x, y, scale=1.0):
    """Return the gradients of a compiled model's loss, times a loss scale.

    The loss is multiplied before the gradients are taken, in the dtypes in which the
    model computes, as a training step does. A model that is not built gets built;
    else nothing of it changes: neither weights nor moving averages, seeds or metrics.

    Args:
        model: compiled `keras.Model`.
        x: array, or a structure of arrays, one batch of inputs.
        y: the same of targets.
        scale: float, the loss scale (unitless).

    Returns:
        List of float32 arrays, one for each of `model.trainable_variables` that the
        loss depends on.

    Raises:
        ValueError: if the model is not compiled, or has nothing trainable, or x and y
            are not one batch of arrays.
    """
    if not model.compiled:
        raise ValueError(
            f"The model '{model.name}' is not compiled, so there is no loss to take "
            "gradients of. Call model.compile(optimizer, loss) first."
        )
    # Without a loss of `compile`, that of `add_loss` or a method may need no targets.
    batches.check(x, y, needs_y=model.loss is not None)
    x, y = batches.tensors(x), batches.tensors(y)
    keras_internals.build_for_batch(model, x, y)
    variables = model.trainable_variables
    if not variables:
        raise ValueError(
            f"The model '{model.name}' has no trainable weights, so there are no "
            "gradients. Add a layer that has some, or set trainable=True."
        )
    others = model.non_trainable_variables

    def loss(values):
        state = [*zip(variables, values, strict=True), *((v, v.value) for v in others)]
        with keras.StatelessScope(state_mapping=state, collect_losses=True):
            predicted = model(x, training=True)
            total = model.compute_loss(x=x, y=y, y_pred=predicted, training=True)
            return ops.multiply(ops.cast(total, "float32"), scale)

    return backend.gradients(loss, [v.value for v in variables])
