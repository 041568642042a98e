"""`tf.keras.backend`: functions that do what a layer does."""

from typing import Any

from keras_policies.late import keras
from keras_policies.legacy.ops import image_resize, nn_convolutions
from keras_policies.legacy.ops.array_shapes import pad
from keras_policies.legacy.ops.kinds import Axes, Layout, Padding, Pairs, Value
from keras_policies.legacy.ops.registry import op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.evaluator import call_layer, dtype_of, ops

LAST = "channels_last"
# Values of `hard_sigmoid` up to Keras 2: that of Keras 3 has another slope.
SLOPE, MIDDLE = 0.2, 0.5


@op("keras.backend.relu")
def relu(
    x: Value, alpha: float = 0, max_value: float | None = None, threshold: float = 0
) -> Value:
    """Return `x` where it is above the threshold, up to a maximum."""
    if (alpha, max_value, threshold) == (0, None, 0):
        return ops.relu(x)
    layer = keras.layers.ReLU(max_value, alpha, threshold, dtype=dtype_of(x))
    return call_layer(layer, x)


@op("keras.backend.elu")
def elu(x: Value, alpha: float = 1.0) -> Value:
    """Return `alpha * (exp(x) - 1)` where `x` is negative."""
    return ops.elu(x, alpha=alpha)


@op("keras.backend.hard_sigmoid")
def hard_sigmoid(x: Value) -> Value:
    """Return a piecewise linear sigmoid."""
    return ops.clip(ops.add(ops.multiply(x, SLOPE), MIDDLE), 0.0, 1.0)


@op("keras.backend.sqrt")
def sqrt(x: Value) -> Value:
    """Return square roots, 0 for negative numbers."""
    return ops.sqrt(ops.maximum(x, 0.0))


@op("keras.backend.l2_normalize")
def l2_normalize(x: Value, axis: Axes | None = None) -> Value:
    """Return `x · rsqrt(max(Σx², 1e-12))`."""
    total = ops.sum(ops.square(x), axis=axis, keepdims=True)
    return ops.multiply(x, ops.rsqrt(ops.maximum(total, 1e-12)))


@op("keras.backend.dot")
def dot(x: Value, y: Value) -> Value:
    """Return the product along the last axis of `x` and the last but one of `y`."""
    return ops.dot(x, y)


@op("keras.backend.batch_dot")
def batch_dot(x: Value, y: Value, axes: Axes | None = None) -> Value:
    """Return a product of each example by itself."""
    ranks = computed.rank(x), computed.rank(y)
    if axes is None:
        axes = (ranks[0] - 1, max(ranks[1] - 2, 1))
    pair = (axes, axes) if isinstance(axes, int) else tuple(axes)
    layer = keras.layers.Dot(_positive(pair, ranks), dtype=dtype_of(x))
    return call_layer(layer, [x, y])


def _positive(axes: Any, ranks: tuple[int, int]) -> tuple[int, ...]:
    return tuple(axis % rank for axis, rank in zip(axes, ranks, strict=True))


@op("keras.backend.resize_images")
def resize_images(
    x: Value,
    height_factor: int,
    width_factor: int,
    data_format: Layout = LAST,
    interpolation: str = "nearest",
) -> Value:
    """Enlarge images by whole factors."""
    if data_format != LAST:
        raise ValueError(f"data_format: expected {LAST!r}")
    _, rows, columns, _ = computed.shape(x)
    size = [rows * height_factor, columns * width_factor]
    return image_resize.resize(x, size, interpolation)


@op("keras.backend.spatial_2d_padding")
def spatial_2d_padding(
    x: Value, padding: Pairs = ((1, 1), (1, 1)), data_format: Layout = LAST
) -> Value:
    """Pad rows and columns with zeros."""
    is_last = data_format == LAST
    widths = [(0, 0), *padding, (0, 0)] if is_last else [(0, 0), (0, 0), *padding]
    return pad(x, tuple(widths))


@op("keras.backend.temporal_padding")
def temporal_padding(x: Value, padding: tuple[int, ...] = (1, 1)) -> Value:
    """Pad the axis of time with zeros."""
    return pad(x, ((0, 0), (padding[0], padding[1]), (0, 0)))


@op("keras.backend.pool2d")
def pool2d(
    x: Value,
    pool_size: tuple[int, ...],
    strides: tuple[int, ...] = (1, 1),
    padding: Padding = "valid",
    data_format: Layout = LAST,
    pool_mode: str = "max",
) -> Value:
    """Pool with `pool_mode` `"max"` or `"avg"`."""
    pooling = {"max": nn_convolutions.MAX, "avg": nn_convolutions.AVG}[pool_mode]
    return pooling(x, pool_size, strides, padding, data_format)


@op("keras.backend.dropout")
def dropout(
    x: Value, level: float, noise_shape: object = None, seed: object = None
) -> Value:
    """Drop a share of the values, always: a Lambda layer knows no training."""
    if noise_shape is not None:
        raise ValueError("noise_shape: expected None")
    return call_layer(keras.layers.Dropout(level), x, training=True)
