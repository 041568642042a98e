"""`tf.keras.backend`."""

import math
from typing import Any

import numpy as np

from keras_policies._common.lazy_keras import keras
from keras_policies.legacy.ops import (  # noqa: F401 (each registers its functions)
    array_values,
    image_resize,
    math_elementwise,
    nn,
    nn_convolutions,
)
from keras_policies.legacy.ops.array_shapes import pad
from keras_policies.legacy.ops.converters import (
    LAST,
    Axes,
    DType,
    Layout,
    Lengths,
    Padding,
    Pairs,
    Value,
)
from keras_policies.legacy.ops.registry import FUNCTIONS, functions, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.evaluator import call_layer, dtype_of, ops


def _batch_flatten(x: Any) -> Any:
    """Merge all axes but the first."""
    batch, *lengths = computed.shape(x)
    return computed.reshape(x, [batch, math.prod(lengths)])


functions(
    "x",
    (_batch_flatten, "keras.backend.batch_flatten"),
    # `ops.hard_sigmoid` has another slope.
    "keras.backend.hard_sigmoid: clip(x * 0.2 + 0.5, 0.0, 1.0)",
    (lambda x: tuple(np.shape(x)), "keras.backend.int_shape"),
    (computed.rank, "keras.backend.ndim"),
    (dtype_of, "keras.backend.dtype"),
    (lambda x: computed.reshape(x, [-1]), "keras.backend.flatten"),
    "keras.backend.sqrt: sqrt(maximum(x, 0.0))",
)
functions(
    "x axis:int=-1",
    "keras.backend.argmax: argmax",
    "keras.backend.argmin: argmin",
    "keras.backend.expand_dims: expand_dims",
)
functions("x y", "keras.backend.dot: dot")
functions("x n:int", "keras.backend.repeat: repeat(expand_dims(x, 1), n, axis=1)")
functions("x rep:int axis:int", "keras.backend.repeat_elements: repeat")
functions("x alpha:float=1.0", "keras.backend.elu: elu")
functions("tensors:Values axis:int=-1", "keras.backend.concatenate: concatenate")
functions(
    "target output from_logits:bool=False",
    "keras.backend.binary_crossentropy: binary_crossentropy",
)
functions(
    "target output from_logits:bool=False axis:int=-1",
    "keras.backend.categorical_crossentropy: categorical_crossentropy",
)
functions(
    "condition then_expression else_expression",
    (array_values.select, "keras.backend.switch"),
    renamed={"then_tensor": "then_expression"},
)


@op("keras.backend.constant keras.backend.variable constant")
def constant(
    value: Value, dtype: DType | None = None, shape: Lengths | None = None
) -> Value:
    """Return an array."""
    value = value if dtype is None else ops.cast(value, dtype)
    if shape is None:
        return value
    is_one = math.prod(computed.shape(value)) == 1
    fit = computed.broadcast_to if is_one else computed.reshape
    return fit(value, shape)


@op("keras.backend.arange")
def arange(
    start: Value, stop: Value | None = None, step: Value = 1, dtype: DType = "int32"
) -> Value:
    """Return numbers from `start` to `stop`, or from 0 to `start`."""
    return array_values.arange(start, stop, step, dtype)


@op("keras.backend.relu")
def relu(
    x: Value, alpha: float = 0, max_value: float | None = None, threshold: float = 0
) -> Value:
    """Return `x` above a threshold and up to a maximum."""
    if (alpha, max_value, threshold) == (0, None, 0):
        return ops.relu(x)
    layer = keras.layers.ReLU(max_value, alpha, threshold, dtype=dtype_of(x))
    return call_layer(layer, x)


@op("keras.backend.batch_dot")
def batch_dot(x: Value, y: Value, axes: Axes | None = None) -> Value:
    """Return the product of each example by itself."""
    ranks = computed.rank(x), computed.rank(y)
    if axes is None:
        axes = (ranks[0] - 1, max(ranks[1] - 2, 1))
    pair = (axes, axes) if isinstance(axes, int) else axes
    pair = tuple(axis % rank for axis, rank in zip(pair, ranks, strict=True))
    return call_layer(keras.layers.Dot(pair, dtype=dtype_of(x)), [x, y])


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
    """Pad the time axis with zeros."""
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
    kind = {"max": "Max", "avg": "Average"}[pool_mode]
    return nn_convolutions.pooled(kind, x, pool_size, strides, padding, data_format)


@op("keras.backend.dropout")
def dropout(
    x: Value, level: float, noise_shape: object = None, seed: object = None
) -> Value:
    """Drop a share of the values, even in inference: Lambdas have no `training`."""
    if noise_shape is not None:
        raise ValueError("noise_shape: expected None")
    return call_layer(keras.layers.Dropout(level), x, training=True)


def _same(*names: str, own_name: str = "", **renamed: str) -> None:
    """Register functions of TensorFlow, with other names for some parameters.

    The last part of a name is also the name here, without `reduce_`, if there is no
    `own_name`.
    """
    for name in names:
        here = own_name or name.rpartition(".")[2].removeprefix("reduce_")
        standard = FUNCTIONS[name]
        all_renamed = {**standard.renamed, **renamed}
        op(f"keras.backend.{here}", renamed=all_renamed)(standard.function)


_same(
    *("cast", "ones", "zeros", "math.cumprod", "math.cumsum", "math.l2_normalize"),
    *("nn.selu", "nn.softsign", "math.abs", "math.cos", "math.equal", "math.exp"),
    *("math.greater", "math.greater_equal", "math.less", "math.less_equal", "math.log"),
    *("math.maximum", "math.minimum", "math.not_equal", "math.round", "math.sigmoid"),
    *("math.sign", "math.sin", "math.softplus", "math.square", "math.tanh"),
)
_same("math.pow", a="y")
_same("one_hot", num_classes="depth")
_same("gather", reference="params")
_same("eye", size="num_rows")
_same("stop_gradient", variables="x")
_same("transpose", own_name="permute_dimensions", x="a", pattern="perm")
_same("transpose", x="a")
_same("nn.conv1d", "nn.conv2d", x="input", kernel="filters")
_same("tile", x="input", n="multiples")
_same("identity", "ones_like", "shape", "squeeze", "zeros_like", x="input")
_same("identity", own_name="linear", x="input")
_same(
    *("math.reduce_all", "math.reduce_any", "math.reduce_logsumexp", "math.reduce_max"),
    *("math.reduce_mean", "math.reduce_min", "math.reduce_prod", "math.reduce_std"),
    *("math.reduce_sum",),
    x="input_tensor",
)
_same("math.reduce_variance", own_name="var", x="input_tensor")
_same("nn.log_softmax", "nn.softmax", x="logits")
_same(
    "clip_by_value",
    own_name="clip",
    x="t",
    min_value="clip_value_min",
    max_value="clip_value_max",
)
_same("reverse", x="tensor", axes="axis")
_same("reshape", x="tensor")
_same("nn.bias_add", x="value")
_same("stack", x="values")
