"""Mends what Keras computes wrongly without a word, in all models of the process.

- TensorFlow, from Keras 3.7 on (keras#20386): `ops.add` takes its second argument for a
  bias if all of its axes but one have length 1, and the second or the last axis of the
  first argument is as long as that one. It then adds along the last axis if that has
  the length, else along the second: `(2, 3, 3) + (3, 1)` is a sum along the last axis,
  and `(1, 4, 1) + (1, 1, 4)` has four numbers. Layers add so, too: `Add`, and
  `MultiHeadAttention` with `key_dim=1`.
- torch: average pooling with `padding="same"` counts the numbers at the edge twice if
  one side needs more padding than the other, such as a pool of 3 with strides of 2 over
  an even length. TensorFlow counts no padding.
- torch, Keras 3.15: `LayerNormalization` over neighbouring axes other than the last
  normalizes the last ones: `ops.layer_normalization` tells torch the sizes alone.
- `LayerNormalization` (Keras 3.15) and `UnitNormalization` of whole numbers compute
  with whole numbers, and give 0 and 1. tf.keras made them floating-point numbers first.

Keras 3.15: src/backend/tensorflow/numpy.py, src/backend/torch/nn.py, src/ops/nn.py.
"""

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_policies.keras_internals.private_api import BACKEND_OPS, FAULTS, installs
from keras_policies.keras_internals.wrapping import Function, instead_of


def _module(name: str) -> ModuleType:
    """Return a module of the backend's functions."""
    return importlib.import_module(f"keras.src.{BACKEND_OPS}.{name}")


@installs(FAULTS)
def add_as_numpy() -> None:
    """Let Keras add on TensorFlow as NumPy does, whatever the shapes are."""
    import tensorflow as tf

    @instead_of(_module("numpy"), "add")
    def add(stock: Function, x1: Any, x2: Any) -> Any:
        shapes = getattr(x1, "shape", ()), getattr(x2, "shape", ())
        if is_added_as_numpy_does(*shapes):
            return stock(x1, x2)
        dtype = keras.backend.result_type(x1.dtype, x2.dtype)
        return tf.add(*(ops.convert_to_tensor(x, dtype) for x in (x1, x2)))


def is_added_as_numpy_does(
    shape: Sequence[int | None], bias: Sequence[int | None]
) -> bool:
    """Return whether stock Keras broadcasts two shapes on TensorFlow as NumPy does.

    Example:
        >>> is_added_as_numpy_does((2, 3, 3), (3, 1))
        False
        >>> is_added_as_numpy_does((2, 3, 5), (3, 1))
        True
    """
    long = [axis - len(bias) for axis, size in enumerate(bias) if size != 1]
    if len(shape) < 2 or len(long) != 1 or bias[long[0]] is None:
        return True  # not taken for a bias
    length = bias[long[0]]
    if length not in (shape[1], shape[-1]):
        return True
    added_along = -1 if shape[-1] == length else 1 - len(shape)
    return long == [added_along] and len(bias) <= len(shape)


@installs(FAULTS)
def average_without_padding() -> None:
    """Let average pooling on torch leave out the padding, as on other backends."""

    @instead_of(_module("nn"), "average_pool")
    def average_pool(
        stock: Function,
        inputs: Any,
        pool_size: Any,
        strides: Any = None,
        padding: str = "valid",
        data_format: str | None = None,
    ) -> Any:
        inputs = ops.convert_to_tensor(inputs)
        strides = pool_size if strides is None else strides
        widths = _padding(inputs.shape, pool_size, strides, data_format)
        if padding != "same" or all(left == right for left, right in widths):
            return stock(inputs, pool_size, strides, padding, data_format)
        sums, counts = (
            stock(ops.pad(x, widths), pool_size, strides, "valid", data_format)
            for x in (inputs, ops.ones_like(inputs))
        )
        return ops.divide(sums, counts)


def _padding(
    shape: Sequence[int], pool_size: Any, strides: Any, data_format: str | None
) -> list[tuple[int, int]]:
    """Return how many zeros `padding="same"` puts before and after each axis."""
    data_format = data_format or keras.config.image_data_format()
    first = 1 if data_format == "channels_last" else 2
    widths = [(0, 0)] * len(shape)
    rank = len(shape) - 2
    windows = np.broadcast_to(pool_size, rank), np.broadcast_to(strides, rank)
    for axis, size, stride in zip(range(first, first + rank), *windows, strict=True):
        rest = (shape[axis] - 1) % stride + 1  # under the last pool
        total = max(int(size - rest), 0)
        widths[axis] = total // 2, total - total // 2
    return widths


def _floating(layer: keras.Layer, x: Any) -> Any:
    """Return whole numbers in the dtype that a layer computes in."""
    is_floating = keras.backend.is_float_dtype(keras.backend.standardize_dtype(x.dtype))
    return x if is_floating else ops.cast(x, layer.compute_dtype)


def normalize_whole_numbers() -> None:
    """Let UnitNormalization take whole numbers."""

    @instead_of(keras.layers.UnitNormalization, "call")
    def call(stock: Function, self: keras.Layer, inputs: Any) -> Any:
        return stock(self, _floating(self, inputs))


def normalize_any_axes() -> None:
    """Let LayerNormalization take whole numbers, and on torch any axes."""
    is_torch = keras.backend.backend() == "torch"

    @instead_of(keras.layers.LayerNormalization, "call")
    def call(stock: Function, self: keras.Layer, inputs: Any) -> Any:
        inputs = _floating(self, inputs)
        rank = len(inputs.shape)
        axes = sorted(axis % rank for axis in np.atleast_1d(self.axis).tolist())
        last = [*range(rank - len(axes), rank)]
        if not is_torch or axes == last or getattr(self, "rms_scaling", False):
            return stock(self, inputs)
        weights = self.gamma, self.beta
        inputs = ops.moveaxis(inputs, axes, last)
        outputs = ops.layer_normalization(inputs, *weights, last, self.epsilon)
        return ops.cast(ops.moveaxis(outputs, last, axes), self.compute_dtype)


if keras.backend.backend() == "tensorflow":
    add_as_numpy()
elif keras.backend.backend() == "torch":
    average_without_padding()
normalize_whole_numbers()
if hasattr(ops, "layer_normalization"):
    normalize_any_axes()
