"""Counts the weights that are not finite, for messages on failed training."""

import keras
from keras import ops


def words_on_weights(model: keras.Model) -> str:
    """Return `"3 of 4 weights hold inf or NaN"`, or `""` if none of a model does.

    Example:
        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        >>> _ = model.layers[0].bias.assign([np.inf])
        >>> words_on_weights(model)
        '1 of 2 weights hold inf or NaN'
    """
    floating = [v for v in model.weights if keras.backend.is_float_dtype(v.dtype)]
    found = sum(not bool(ops.all(ops.isfinite(v))) for v in floating)
    return f"{found} of {len(model.weights)} weights hold inf or NaN" if found else ""
