"""Whether weights are finite, for those who say why training came to a halt."""

import keras
from keras import ops


def non_finite(variables):
    """Return how many of some variables hold inf or NaN.

    Args:
        variables: list of `keras.Variable`; those that are not floating-point are not
            asked.

    Example:
        >>> non_finite([keras.Variable([1.0, np.inf]), keras.Variable([2.0])])
        1
    """
    floating = [v for v in variables if keras.backend.is_float_dtype(v.dtype)]
    return sum(not bool(ops.all(ops.isfinite(v))) for v in floating)


def words_on_weights(model):
    """Return `"3 of 4 weights hold inf or NaN"`, or `""` if none of a model does.

    Example:
        >>> words_on_weights(keras.Sequential([keras.Input((2,))]))
        ''
    """
    found = non_finite(model.weights)
    return f"{found} of {len(model.weights)} weights hold inf or NaN" if found else ""
