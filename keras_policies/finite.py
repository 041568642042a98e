"""Counts the weights that are not finite, for messages on failed training."""

from collections.abc import Iterable

import keras
from keras import ops


def non_finite(variables: Iterable[keras.Variable]) -> int:
    """Return how many of some variables hold inf or NaN.

    Args:
        variables: the variables; those that are not floating-point are skipped.

    Example:
        >>> non_finite([keras.Variable([1.0, np.inf]), keras.Variable([2.0])])
        1
    """
    floating = [v for v in variables if keras.backend.is_float_dtype(v.dtype)]
    return sum(not bool(ops.all(ops.isfinite(v))) for v in floating)


def words_on_weights(model: keras.Model) -> str:
    """Return `"3 of 4 weights hold inf or NaN"`, or `""` if none of a model does.

    Example:
        >>> words_on_weights(keras.Sequential([keras.Input((2,))]))
        ''
    """
    found = non_finite(model.weights)
    return f"{found} of {len(model.weights)} weights hold inf or NaN" if found else ""
