"""`tf.nn`: convolutions, pooling and other functions of images and sequences."""

import functools
import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from keras_policies._common.lazy_keras import keras
from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import converters
from keras_policies.legacy.ops.array_shapes import pad
from keras_policies.legacy.ops.converters import (
    LAST,
    Axes,
    Layout,
    Lengths,
    Padding,
    Value,
)
from keras_policies.legacy.ops.registry import functions, op
from keras_policies.legacy.values import computed, dims, evaluator
from keras_policies.legacy.values.dims import DimLike
from keras_policies.legacy.values.evaluator import call_layer, dtype_of, has_dims, ops

SETTINGS = (
    "strides:Axes=1 padding:Padding='valid' data_format:Layout='channels_last' "
    "dilations:Axes=1"
)
Setting: TypeAlias = int | Sequence[int]  # for all spatial axes, or one for each


def spatial(values: int | Sequence[Any], rank: int, layout: str) -> list[Any]:
    """Return a setting per spatial axis, from one number or a number per axis."""
    if isinstance(values, int):
        return [values] * rank
    values = list(values)
    if len(values) == rank + 2:
        return values[1:-1] if layout == LAST else values[2:]
    return values * rank if len(values) == 1 else values


def scalar_if_equal(values: Sequence[int]) -> int | tuple[int, ...]:
    """Return one number if all are equal: saved operations turn tuples to lists."""
    return values[0] if len(set(values)) == 1 else tuple(values)


def _convolved(
    name: str,
    x: Any,
    *filters: Any,
    strides: Setting,
    padding: str,
    data_format: str,
    dilations: Setting,
) -> Any:
    """Call a convolution of `keras.ops`, once for each group of channels."""
    rank = computed.rank(x) - 2
    for kernel in filters:
        if None in kernel.shape:
            raise ValueError(f"filters: expected known sizes, found {kernel.shape}")
    call = functools.partial(
        evaluator.evaluate,
        name,
        strides=scalar_if_equal(spatial(strides, rank, data_format)),
        padding=padding,
        data_format=data_format,
        dilation_rate=scalar_if_equal(spatial(dilations, rank, data_format)),
    )
    axis = rank + 1 if data_format == LAST else 1
    groups = computed.shape(x)[axis] // computed.shape(filters[0])[-2]
    if name != "conv" or not isinstance(groups, int) or groups < 2:
        return call(x, *filters)
    budget.work(budget.OP * groups)
    kernels = ops.split(filters[0], groups, axis=-1)
    parts = zip(ops.split(x, groups, axis=axis), kernels, strict=True)
    return ops.concatenate([call(*part) for part in parts], axis=axis)


RENAMED = {"stride": "strides", "dilation_rate": "dilations", "rate": "dilations"}
for _name, _inputs, _names in (
    ("conv", "filters", "nn.convolution nn.conv1d nn.conv2d nn.conv3d Conv2D Conv3D"),
    ("depthwise_conv", "filters", "nn.depthwise_conv2d DepthwiseConv2dNative"),
    ("separable_conv", "depthwise_filter pointwise_filter", "nn.separable_conv2d"),
):
    functions(
        f"input {_inputs} {SETTINGS}",
        (functools.partial(_convolved, _name), _names),
        v1=True,
        renamed=RENAMED | ({"filter": "filters"} if _inputs == "filters" else {}),
    )


def pooled(
    kind: str,
    x: Any,
    ksize: Setting,
    strides: Setting,
    padding: str,
    data_format: str = LAST,
) -> Any:
    """Call a layer, `"Max"` or `"Average"`: saved pooling operations do not open."""
    rank = computed.rank(x) - 2
    layer = getattr(keras.layers, f"{kind}Pooling{rank}D")(
        tuple(spatial(ksize, rank, data_format)),
        strides=tuple(spatial(strides, rank, data_format)),
        padding=padding,
        data_format=data_format,
        dtype=dtype_of(x),
    )
    return averaged(layer, x) if kind == "Average" else call_layer(layer, x)


def averaged(layer: Any, x: Any) -> Any:
    """Call an average pooling such that no backend counts the padding.

    torch repeats the numbers at the edge where one side needs more padding than the
    other, such as a pool of 3 with strides of 2 over an even length.
    """
    config = layer.get_config()
    if config["padding"] != "same":
        return call_layer(layer, x)
    first = 1 if config["data_format"] == LAST else 2
    widths: list[tuple[DimLike, DimLike]] = [(0, 0)] * computed.rank(x)
    is_uneven = False
    windows = config["pool_size"], config["strides"]
    for axis, (size, stride) in enumerate(zip(*windows, strict=True), first):
        rest = (computed.shape(x)[axis] - 1) % stride + 1  # under the last pool
        possible = range(1, stride + 1) if has_dims(rest) else [rest]
        is_uneven |= any(max(size - n, 0) % 2 for n in possible)
        total = dims.extreme("max", size - rest, 0)
        widths[axis] = total // 2, total - total // 2
    if not is_uneven:
        return call_layer(layer, x)
    if any(map(has_dims, itertools.chain(*widths))):
        for axis, (size, stride) in enumerate(zip(*windows, strict=True), first):
            x = _averaged_along(x, axis, size, stride)
        return x
    layer = type(layer).from_config({**config, "padding": "valid"})
    padded = (pad(each, widths) for each in (x, ops.ones_like(x)))
    sums, counts = (call_layer(layer, each) for each in padded)
    return ops.divide(sums, counts)


def _averaged_along(x: Any, axis: int, size: int, stride: int) -> Any:
    """Average the windows of `size` along an axis of unknown length.

    Their count, and the start of the first one, are computed from a line of ones.
    """
    rank = computed.rank(x)
    others = tuple(other for other in range(rank) if other != axis)
    line = ops.max(ops.ones_like(x), axis=others)
    length = ops.sum(ops.cast(line, "int32"))
    ones = ops.max_pool(ops.reshape(line, (1, -1, 1)), stride, stride, "same", LAST)
    number = ops.cumsum(ops.cast(ops.reshape(ones, (-1,)), "int32"))
    rest = ops.add(ops.mod(ops.subtract(length, 1), stride), 1)
    before = ops.floor_divide(ops.maximum(ops.subtract(size, rest), 0), 2)
    first = ops.subtract(ops.multiply(ops.subtract(number, 1), stride), before)

    def sums(values: Any, axis: int) -> Any:
        widths = [(0, 0)] * computed.rank(values)
        widths[axis] = size - 1, size - 1
        padded = pad(values, widths)
        parts = (
            ops.take(padded, ops.add(first, size - 1 + n), axis) for n in range(size)
        )
        return functools.reduce(ops.add, parts)

    counts = ops.reshape(sums(line, 0), [-1 if n == axis else 1 for n in range(rank)])
    return ops.divide(sums(x, axis), counts)


for _kind, _name in ("Max", "max"), ("Average", "avg"):
    _names = " ".join(f"nn.{_name}_pool{rank}" for rank in ("", "1d", "2d", "3d"))
    _node = f"{_name.title()}Pool"
    functions(
        "input ksize:Axes strides:Axes padding:Padding "
        "data_format:Layout='channels_last'",
        (
            functools.partial(pooled, _kind),
            f"{_names} {_node}|{_node}3D(input; ksize strides padding data_format)",
        ),
        v1=True,
    )


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
    kind = {"MAX": "Max", "AVG": "Average"}[pooling_type]
    return pooled(kind, input, ksize, strides, padding, data_format)


@op("nn.bias_add BiasAdd(value bias; data_format) BiasAddV1(value bias)")
def bias_add(value: Value, bias: Value, data_format: Layout = LAST) -> Value:
    """Add a number per channel."""
    if data_format == "channels_first":
        bias = computed.along(bias, 1, computed.rank(value))
    return ops.add(value, bias)


@op("nn.depth_to_space DepthToSpace(input; block_size data_format)")
def depth_to_space(input: Value, block_size: int, data_format: Layout = LAST) -> Value:
    """Spread the channels of a pixel over a square with sides of `block_size`."""
    batch, rows, columns, depth = _image_shape(input, data_format)
    inner = depth // block_size**2
    x = computed.reshape(input, [batch, rows, columns, block_size, block_size, inner])
    x = ops.transpose(x, axes=(0, 1, 3, 2, 4, 5))
    return computed.reshape(x, [batch, rows * block_size, columns * block_size, inner])


@op("nn.space_to_depth SpaceToDepth(input; block_size data_format)")
def space_to_depth(input: Value, block_size: int, data_format: Layout = LAST) -> Value:
    """Gather squares with sides of `block_size` in the channels of one pixel."""
    batch, rows, columns, depth = _image_shape(input, data_format)
    rows, columns = rows // block_size, columns // block_size
    x = computed.reshape(input, [batch, rows, block_size, columns, block_size, depth])
    x = ops.transpose(x, axes=(0, 1, 3, 2, 4, 5))
    return computed.reshape(x, [batch, rows, columns, depth * block_size**2])


def _image_shape(images: Any, layout: str) -> Sequence[Any]:
    """Return the shape of images with channels last, or raise for others."""
    if layout != LAST:
        shape = computed.shape(images)
        raise ValueError(f"input: {layout} of the shape {shape}; expected {LAST}")
    return computed.shape(images)


@op(
    "nn.max_pool_with_argmax MaxPoolWithArgmax(input; ksize strides padding "
    "include_batch_in_index; output argmax)"
)
def max_pool_with_argmax(
    input: Value,
    ksize: Axes,
    strides: Axes,
    padding: Padding,
    data_format: Layout = LAST,
    output_dtype: converters.DType = "int64",
    include_batch_in_index: bool = False,
) -> tuple[Value, ...]:
    """Return the maximum of each patch, and its position in the flat image."""
    batch, *lengths = computed.shape(input)
    rows, columns, channels = converters.integers(lengths)
    sides = spatial(ksize, 2, LAST), spatial(strides, 2, LAST), [padding] * 2
    at = [*map(_patches, (rows, columns), *sides)]
    flat = at[0][:, None, :, None] * columns + at[1][None, :, None, :]
    flat = flat.reshape(len(at[0]), len(at[1]), -1).astype("int32")
    budget.spend(flat.size * channels, 8)
    lines = computed.reshape(input, [batch, rows * columns, channels])
    items = ops.take(lines, flat, axis=1)
    largest = ops.max(items, axis=3, keepdims=True)
    # Of equal ones, the first has the lowest position.
    end = np.int32(rows * columns)
    places = ops.where(ops.equal(items, largest), flat[..., None], end)
    first = ops.multiply(ops.min(places, axis=3), channels)
    argmax = ops.add(first, np.arange(channels, dtype="int32"))
    if include_batch_in_index:
        number = computed.along(computed.arange(0, batch), 0, 4)
        argmax = ops.add(argmax, ops.multiply(number, rows * columns * channels))
    return ops.squeeze(largest, 3), argmax


def _patches(length: int, size: int, step: int, padding: str) -> Any:
    """Return the positions of an axis in each patch, `(patches, size)`.

    Those beyond the edge are replaced by the nearest one inside the patch.
    """
    if padding == "valid":
        starts = np.arange(0, length - size + 1, step)
    else:
        count = -(-length // step)
        before = max((count - 1) * step + size - length, 0) // 2
        starts = np.arange(count) * step - before
    ends = np.minimum(starts + size, length)[:, None] - 1
    inside = np.maximum(starts[:, None] + np.arange(size), 0)
    return np.minimum(inside, ends)


@op(
    "nn.conv_transpose nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose "
    "Conv2DBackpropInput|Conv3DBackpropInputV2(output_shape filters input; strides "
    "padding data_format dilations)",
    v1=True,
    renamed={"filter": "filters", "value": "input"},
)
def convolution_transpose(
    input: Value,
    filters: Value,
    output_shape: Lengths,
    strides: Axes,
    padding: Padding = "same",
    data_format: Layout = LAST,
    dilations: Axes = 1,
) -> Value:
    """Spread each pixel over a window, by a convolution with zeros between the pixels.

    `ops.conv_transpose` does not run in a Functional model: up to Keras 3.15, it
    mistakes its padding for its output padding.
    """
    rank = computed.rank(input) - 2
    first = 1 if data_format == LAST else 2
    rates = spatial(dilations, rank, data_format)
    windows = [
        (size - 1) * rate + 1
        for size, rate in zip(computed.shape(filters)[:rank], rates, strict=True)
    ]
    steps = spatial(strides, rank, data_format)
    lengths = spatial(computed.shape(input), rank, data_format)
    sizes = spatial(output_shape, rank, data_format)
    cuts = map(_cut, lengths, sizes, windows, steps, [padding] * rank)
    full = ops.conv(
        _zero_stuff(input, first, lengths, steps, windows),
        ops.swapaxes(ops.flip(filters, tuple(range(rank))), -1, -2),
        padding="valid",
        data_format=data_format,
        dilation_rate=scalar_if_equal(rates),
    )
    return computed.index(full, [*[slice(None)] * first, *cuts, ...])


def _zero_stuff(
    x: Value,
    first: int,
    lengths: Sequence[DimLike],
    steps: Sequence[int],
    windows: Sequence[int],
) -> Value:
    """Return `x` with `step - 1` zeros after each pixel, and a window around them."""
    for axis, (length, step) in enumerate(zip(lengths, steps, strict=True), first):
        if step > 1:
            pads = [(0, 0)] * (computed.rank(x) + 1)
            pads[axis + 1] = (0, step - 1)
            shape = [*computed.shape(x)]
            shape[axis] = length * step
            x = computed.reshape(pad(ops.expand_dims(x, axis + 1), pads), shape)
    around = [(0, 0)] * computed.rank(x)
    around[first : first + len(windows)] = [(size - 1, size - 1) for size in windows]
    return pad(x, around)


def _cut(
    length: DimLike, wanted: DimLike, window: int, step: int, padding: str
) -> slice:
    """Return the part of an axis that is in TensorFlow's result.

    Source: GetWindowedOutputSize in tensorflow/core/framework/common_shape_fns.cc.
    """
    less = 1 if padding == "same" else window
    if not has_dims(wanted):  # it determines the length of the input
        expected = (wanted - less) // step + 1
        if not has_dims(length) and length != expected:
            raise ValueError(f"output_shape: {wanted} of {length} by steps of {step}")
        length = expected
    total = dims.extreme("max", (length - 1) * step + window - wanted, 0)
    start = total // 2 if padding == "same" else 0
    return slice(start, start + wanted)
