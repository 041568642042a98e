"""The first layer whose outputs leave the range of float16 on a batch."""

import contextlib
import dataclasses
from typing import Any

import keras
import numpy as np

from keras_policies import keras_internals
from keras_policies._common.types import Arrays

LARGEST = 65504.0  # of float16


@dataclasses.dataclass(frozen=True)
class Overflow:
    """A layer whose outputs leave the range of float16."""

    path: str  # names of the layers around it, and its own; "" for the inputs
    class_name: str  # "" for the inputs
    dtype: str  # of its outputs
    largest: float  # absolute value, which may be infinite or NaN

    def __str__(self) -> str:
        where = f"{self.path} ({self.class_name})" if self.path else "the inputs"
        return (
            f"The first values outside of float16's range on this batch: {where}, in "
            f"{self.dtype}, up to {self.largest:.4g}; float16 ends at {LARGEST:.0f}."
        )


def first_overflow(model: keras.Model, x: Arrays) -> Overflow | None:
    """Return the first `Overflow` while a model predicts a batch, or None.

    Inner layers come before the layers around them, in the order in which their calls
    end. The model runs under its own policies, in inference; a model that is not built
    is built. Values inside a compiled loop, such as an RNN's cell, are not checked.

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
        # A layer may return things that are not tensors, or symbolic tensors.
        with contextlib.suppress(Exception):
            dtype = keras.backend.standardize_dtype(tensor.dtype)
            if keras.backend.is_float_dtype(dtype):
                array = keras.ops.convert_to_numpy(tensor).astype("float32")
                largest = float(np.max(np.abs(array), initial=0.0))
                if not largest <= LARGEST:  # NaN is not
                    return Overflow(path, class_name, dtype, largest)
    return None
