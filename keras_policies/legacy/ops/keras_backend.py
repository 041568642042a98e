"""`tf.keras.backend`."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_policies._common.lazy_keras import keras
from keras_policies.legacy.ops import (  # noqa: F401 (each enters its functions)
    array_indexing,
    array_shapes,
    array_values,
    image_resize,
    math_elementwise,
    math_reductions,
    nn,
    nn_convolutions,
)
from keras_policies.legacy.ops.array_shapes import pad
from keras_policies.legacy.ops.converters import (
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
from keras_policies.legacy.values.evaluator import call_layer, dtype_of, is_tensor, ops

LAST = "channels_last"


def _batch_flatten(x: Any) -> Any:
    """Reshape to two axes, of which the first is the batch."""
    batch, *lengths = computed.shape(x)
    return computed.reshape(x, [batch, math.prod(lengths)])


def _int_shape(x: Any) -> tuple[int | None, ...]:
    """Return the shape as it is known."""
    return tuple(x.shape) if is_tensor(x) else np.shape(x)


def _hard_sigmoid(x: Any) -> Any:
    """Return a piecewise linear sigmoid: that of Keras 3 has another slope."""
    return ops.clip(ops.add(ops.multiply(x, 0.2), 0.5), 0.0, 1.0)


def _repeat(x: Any, n: int) -> Any:
    """Repeat vectors along a new axis in the middle."""
    return ops.repeat(ops.expand_dims(x, 1), n, axis=1)


functions(
    "x",
    (_batch_flatten, "keras.backend.batch_flatten", ""),
    (_hard_sigmoid, "keras.backend.hard_sigmoid", ""),
    (_int_shape, "keras.backend.int_shape", ""),
    (computed.rank, "keras.backend.ndim", ""),
    (dtype_of, "keras.backend.dtype", ""),
    (lambda x: computed.reshape(x, [-1]), "keras.backend.flatten", ""),
    (lambda x: ops.sqrt(ops.maximum(x, 0.0)), "keras.backend.sqrt", ""),
)
functions(
    "x axis:int=-1",
    ("argmax", "keras.backend.argmax", ""),
    ("argmin", "keras.backend.argmin", ""),
    ("expand_dims", "keras.backend.expand_dims", ""),
)
functions("x y", ("dot", "keras.backend.dot", ""))
functions("x n:int", (_repeat, "keras.backend.repeat", ""))
functions("x rep:int axis:int", ("repeat", "keras.backend.repeat_elements", ""))
functions("x alpha:float=1.0", ("elu", "keras.backend.elu", ""))
functions(
    "tensors:Values axis:int=-1", ("concatenate", "keras.backend.concatenate", "")
)
functions(
    "target output from_logits:bool=False",
    ("binary_crossentropy", "keras.backend.binary_crossentropy", ""),
)
functions(
    "target output from_logits:bool=False axis:int=-1",
    ("categorical_crossentropy", "keras.backend.categorical_crossentropy", ""),
)
functions(
    "condition then_expression else_expression",
    (array_values.select, "keras.backend.switch", ""),
    renamed={"then_tensor": "then_expression"},
)


@op("keras.backend.constant", "keras.backend.variable", "constant")
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
    """Return `x` where it is above the threshold, up to a maximum."""
    if (alpha, max_value, threshold) == (0, None, 0):
        return ops.relu(x)
    layer = keras.layers.ReLU(max_value, alpha, threshold, dtype=dtype_of(x))
    return call_layer(layer, x)


@op("keras.backend.batch_dot")
def batch_dot(x: Value, y: Value, axes: Axes | None = None) -> Value:
    """Return a product of each example by itself."""
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
    kind = {"max": "Max", "avg": "Average"}[pool_mode]
    return nn_convolutions.pooled(kind, x, pool_size, strides, padding, data_format)


@op("keras.backend.dropout")
def dropout(
    x: Value, level: float, noise_shape: object = None, seed: object = None
) -> Value:
    """Drop a share of the values, always: a Lambda layer knows no training."""
    if noise_shape is not None:
        raise ValueError("noise_shape: expected None")
    return call_layer(keras.layers.Dropout(level), x, training=True)


# Names that are the same in `tf.math`, of functions of one or two tensors.
ELEMENTWISE = (
    *("abs", "cos", "equal", "exp", "greater", "greater_equal", "less", "less_equal"),
    *("log", "maximum", "minimum", "not_equal", "round", "sigmoid", "sign", "sin"),
    *("softplus", "square", "tanh"),
)
REDUCTIONS = "all", "any", "logsumexp", "max", "mean", "min", "prod", "std", "sum"
# Name in `keras.backend` -> name in TensorFlow, and the names of its parameters there.
OTHERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "bias_add": ("nn.bias_add", {"x": "value"}),
    "cast": ("cast", {}),
    "clip": (
        "clip_by_value",
        {"x": "t", "min_value": "clip_value_min", "max_value": "clip_value_max"},
    ),
    "conv1d": ("nn.conv1d", {"x": "input", "kernel": "filters"}),
    "conv2d": ("nn.conv2d", {"x": "input", "kernel": "filters"}),
    "cumprod": ("math.cumprod", {}),
    "cumsum": ("math.cumsum", {}),
    "eye": ("eye", {"size": "num_rows"}),
    "gather": ("gather", {"reference": "params"}),
    "identity": ("identity", {"x": "input"}),
    "l2_normalize": ("math.l2_normalize", {}),
    "linear": ("identity", {"x": "input"}),
    "log_softmax": ("nn.log_softmax", {"x": "logits"}),
    "one_hot": ("one_hot", {"num_classes": "depth"}),
    "ones": ("ones", {}),
    "ones_like": ("ones_like", {"x": "input"}),
    "permute_dimensions": ("transpose", {"x": "a", "pattern": "perm"}),
    "pow": ("math.pow", {"a": "y"}),
    "reshape": ("reshape", {"x": "tensor"}),
    "reverse": ("reverse", {"x": "tensor", "axes": "axis"}),
    "selu": ("nn.selu", {}),
    "shape": ("shape", {"x": "input"}),
    "softmax": ("nn.softmax", {"x": "logits"}),
    "softsign": ("nn.softsign", {}),
    "squeeze": ("squeeze", {"x": "input"}),
    "stack": ("stack", {"x": "values"}),
    "stop_gradient": ("stop_gradient", {"variables": "x"}),
    "tile": ("tile", {"x": "input", "n": "multiples"}),
    "transpose": ("transpose", {"x": "a"}),
    "zeros": ("zeros", {}),
    "zeros_like": ("zeros_like", {"x": "input"}),
    "var": ("math.reduce_variance", {"x": "input_tensor"}),
    **{name: (f"math.{name}", {}) for name in ELEMENTWISE},
    **{name: (f"math.reduce_{name}", {"x": "input_tensor"}) for name in REDUCTIONS},
}
for _name, (_function, _renamed) in OTHERS.items():
    _standard = FUNCTIONS[_function]
    _names = {**_standard.renamed, **_renamed}
    op("keras.backend." + _name, renamed=_names)(_standard.function)
