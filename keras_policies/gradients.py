"""The gradients of a model on a batch, and how large they are, for `plot_gradients`."""

import dataclasses

import keras
import numpy as np
from keras import ops

from keras_policies import backends, keras_internals

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
        ValueError: if the model is not compiled.
    """
    if not model.compiled:
        raise ValueError(
            f"The model '{model.name}' is not compiled, so there is no loss to take "
            "gradients of. Call model.compile(optimizer, loss) first."
        )
    x, y = _tensors(x), _tensors(y)
    keras_internals.build_for_batch(model, x, y)
    variables = model.trainable_variables
    others = model.non_trainable_variables

    def loss(values):
        state = [*zip(variables, values, strict=True), *((v, v.value) for v in others)]
        with keras.StatelessScope(state_mapping=state):
            predicted = model(x, training=True)
            total = model.compute_loss(x=x, y=y, y_pred=predicted, training=True)
            return ops.multiply(ops.cast(total, "float32"), scale)

    return backends.gradients(loss, [v.value for v in variables])


def _tensors(structure):
    """Return arrays as tensors, floating-point ones in floatx, as `fit` makes them."""

    def convert(array):
        if array is None:
            return None
        tensor = ops.convert_to_tensor(array)
        is_float = keras.backend.is_float_dtype(
            keras.backend.standardize_dtype(tensor.dtype)
        )
        return ops.cast(tensor, keras.config.floatx()) if is_float else tensor

    return keras.tree.map_structure(convert, structure)
