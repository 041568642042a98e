"""`tf.nn`: convolutions, pooling, and other functions of images and sequences."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from keras_policies.late import keras
from keras_policies.legacy.ops.kinds import Axes, Layout, Padding, Value
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.evaluator import call_layer, dtype_of, evaluate, ops

LAST = "channels_last"
CONVOLUTION = Raw("input filters", "strides padding data_format dilations")
POOLING = Raw("input", "ksize strides padding data_format")
Setting: TypeAlias = int | Sequence[int]  # for all spatial axes, or one for each


def spatial(values: int | Sequence[Any], rank: int, layout: str) -> list[Any]:
    """Return a setting per spatial axis, from one number or a number per axis."""
    if isinstance(values, int):
        return [values] * rank
    values = list(values)
    if len(values) == rank + 2:
        return values[1:-1] if layout == LAST else values[2:]
    return values * rank if len(values) == 1 else values


def one(values: Sequence[int]) -> int | tuple[int, ...]:
    """Return one number if all are equal; saving an operation turns tuples to lists."""
    return values[0] if len(set(values)) == 1 else tuple(values)


def _settings(
    input: Value, strides: Setting, padding: str, layout: str, dilations: Setting
) -> dict[str, Any]:
    """Return the keyword arguments of a convolution of `keras.ops`."""
    rank = computed.rank(input) - 2
    return {
        "strides": one(spatial(strides, rank, layout)),
        "padding": padding,
        "data_format": layout,
        "dilation_rate": one(spatial(dilations, rank, layout)),
    }


def _convolution(name: str) -> Callable[..., Any]:
    def function(
        input: Value,
        filters: Value,
        strides: Axes = 1,
        padding: Padding = "valid",
        data_format: Layout = LAST,
        dilations: Axes = 1,
    ) -> Value:
        settings = _settings(input, strides, padding, data_format, dilations)
        return evaluate(name, input, filters, **settings)

    return function


NAMES = "nn.convolution", "nn.conv1d", "nn.conv2d", "nn.conv3d"
RENAMED = {"filter": "filters", "stride": "strides", "dilation_rate": "dilations"}
op(*NAMES, v1=True, Conv2D=CONVOLUTION, Conv3D=CONVOLUTION, renamed=RENAMED)(
    _convolution("conv")
)
RATE = {"filter": "filters", "rate": "dilations"}
op("nn.depthwise_conv2d", v1=True, DepthwiseConv2dNative=CONVOLUTION, renamed=RATE)(
    _convolution("depthwise_conv")
)


@op("nn.separable_conv2d", v1=True, renamed={"rate": "dilations"})
def separable_convolution(
    input: Value,
    depthwise_filter: Value,
    pointwise_filter: Value,
    strides: Axes = 1,
    padding: Padding = "valid",
    data_format: Layout = LAST,
    dilations: Axes = 1,
) -> Value:
    """Convolve each channel by itself, then all of them at each position."""
    filters = depthwise_filter, pointwise_filter
    settings = _settings(input, strides, padding, data_format, dilations)
    return ops.separable_conv(input, *filters, **settings)


def _pooling(kind: str) -> Callable[..., Any]:
    """Return a function that calls a layer, as saved pooling operations do not open."""

    def function(
        input: Value,
        ksize: Axes,
        strides: Axes,
        padding: Padding,
        data_format: Layout = LAST,
    ) -> Value:
        rank = computed.rank(input) - 2
        layer = getattr(keras.layers, f"{kind}Pooling{rank}D")(
            tuple(spatial(ksize, rank, data_format)),
            strides=tuple(spatial(strides, rank, data_format)),
            padding=padding,
            data_format=data_format,
            dtype=dtype_of(input),
        )
        return call_layer(layer, input)

    return function


MAX, AVG = _pooling("Max"), _pooling("Average")
RANKS = "", "1d", "2d", "3d"
MAX_NAMES, AVG_NAMES = (
    [f"nn.{kind}_pool{r}" for r in RANKS] for kind in ("max", "avg")
)
op(*MAX_NAMES, v1=True, MaxPool=POOLING, MaxPool3D=POOLING)(MAX)
op(*AVG_NAMES, v1=True, AvgPool=POOLING, AvgPool3D=POOLING)(AVG)


@op("nn.pool", v1=True, renamed={"window_shape": "ksize", "dilation_rate": "dilations"})
def pool(
    input: Value,
    ksize: Axes,
    pooling_type: str,
    strides: Axes = 1,
    padding: Padding = "valid",
    data_format: Layout = LAST,
    dilations: Axes = 1,
) -> Value:
    """Pool with `pooling_type` `"MAX"` or `"AVG"`."""
    if dilations not in (1, (1, 1)):
        raise ValueError(f"dilations: expected 1, found {dilations}")
    pooling = {"MAX": MAX, "AVG": AVG}[pooling_type]
    return pooling(input, ksize, strides, padding, data_format)


@op("nn.bias_add", BiasAdd=Raw("value bias", "data_format"))
def bias_add(value: Value, bias: Value, data_format: Layout = LAST) -> Value:
    """Add a number per channel."""
    if data_format == "channels_first":
        bias = computed.reshape(bias, [1, -1] + [1] * (computed.rank(value) - 2))
    return ops.add(value, bias)


@op("nn.depth_to_space", DepthToSpace=Raw("input", "block_size data_format"))
def depth_to_space(input: Value, block_size: int, data_format: Layout = LAST) -> Value:
    """Spread the channels of a pixel over a square of `block_size` pixels a side."""
    batch, rows, columns, depth = _image_shape(input, data_format)
    inner = depth // block_size**2
    x = computed.reshape(input, [batch, rows, columns, block_size, block_size, inner])
    x = ops.transpose(x, axes=(0, 1, 3, 2, 4, 5))
    return computed.reshape(x, [batch, rows * block_size, columns * block_size, inner])


@op("nn.space_to_depth", SpaceToDepth=Raw("input", "block_size data_format"))
def space_to_depth(input: Value, block_size: int, data_format: Layout = LAST) -> Value:
    """Gather squares of `block_size` pixels a side in the channels of one pixel."""
    batch, rows, columns, depth = _image_shape(input, data_format)
    rows, columns = rows // block_size, columns // block_size
    x = computed.reshape(input, [batch, rows, block_size, columns, block_size, depth])
    x = ops.transpose(x, axes=(0, 1, 3, 2, 4, 5))
    return computed.reshape(x, [batch, rows, columns, depth * block_size**2])


def _image_shape(images: Any, layout: str) -> Sequence[Any]:
    """Return the lengths of batch, rows, columns and channels."""
    if layout != LAST:
        shape = computed.shape(images)
        raise ValueError(f"input: {layout} of the shape {shape}; expected {LAST}")
    return computed.shape(images)
