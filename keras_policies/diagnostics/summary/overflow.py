"""The first layer whose outputs leave the range of float16 on a batch."""

import dataclasses
from typing import Any

import keras
import numpy as np

from keras_policies import keras_internals
from keras_policies._common.types import Arrays

LARGEST = 65504.0  # of float16


@dataclasses.dataclass(frozen=True)
class Overflow:
    """A layer whose outputs leave the range of float16.

    Args:
        path: str, its name after those of the layers around it; "" for the inputs.
        class_name: str, its class; "" for the inputs.
        dtype: str, that of its outputs.
        largest: float, the largest absolute value, which may be infinite or NaN.
    """

    path: str
    class_name: str
    dtype: str
    largest: float

    def __str__(self) -> str:
        where = f"{self.path} ({self.class_name})" if self.path else "the inputs"
        return (
            f"The first values outside of float16's range on this batch: {where}, in "
            f"{self.dtype}, up to {self.largest:.4g}; float16 ends at {LARGEST:.0f}."
        )


def first_overflow(model: keras.Model, x: Arrays) -> Overflow | None:
    """Return the first `Overflow` while a model predicts a batch, or None.

    Layers inside of others come first, in the order in which they end. The model runs
    under its own policies, in inference; a model that is not built gets built. Values
    inside of a compiled loop, as of an RNN's cell, are not seen.

    Example:
        >>> layer = keras.layers.Rescaling(1e6, name="raw")
        >>> model = keras.Sequential([keras.Input((1,)), layer])
        >>> str(first_overflow(model, np.ones((1, 1)))).partition(": ")[2]
        'raw (Rescaling), in float32, up to 1e+06; float16 ends at 65504.'
    """
    inputs = _outside("", "", x)
    if inputs is not None:
        return inputs
    seen: list[Overflow] = []

    def check(path: str, layer: keras.Layer, outputs: Any) -> None:
        if path and not seen:
            seen.extend(filter(None, [_outside(path, type(layer).__name__, outputs)]))

    if not model.built:  # calls of layers that are being built are symbolic
        model(x, training=False)
    with keras.StatelessScope(), keras_internals.layer_calls(check):
        model(x, training=False)
    return seen[0] if seen else None


def _outside(path: str, class_name: str, values: Any) -> Overflow | None:
    for tensor in keras.tree.flatten(values):
        array = _concrete(tensor)
        if array is not None and array.size:
            largest = float(np.max(np.abs(array)))
            if not largest <= LARGEST:  # NaN is not
                dtype = keras.backend.standardize_dtype(tensor.dtype)
                return Overflow(path, class_name, dtype, largest)
    return None


def _concrete(tensor: Any) -> Any:
    """Return floats as a numpy array, None for what else a layer may return."""
    try:
        dtype = keras.backend.standardize_dtype(tensor.dtype)
        if not keras.backend.is_float_dtype(dtype):
            return None
        return np.asarray(keras.ops.convert_to_numpy(tensor), "float32")
    except Exception:  # no tensor, or a symbolic one, in the way of its backend
        return None
