"""`tf.nn`: transposed convolutions."""

from collections.abc import Sequence

from keras_policies.legacy.ops.array_shapes import pad
from keras_policies.legacy.ops.kinds import Axes, Layout, Lengths, Padding, Value
from keras_policies.legacy.ops.nn_convolutions import LAST, one, spatial
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.values import computed, dims
from keras_policies.legacy.values.computed import index
from keras_policies.legacy.values.dims import DimLike
from keras_policies.legacy.values.evaluator import has_dims, ops

NODE = Raw("output_shape filters input", "strides padding data_format dilations")


@op(
    "nn.conv_transpose",
    "nn.conv1d_transpose",
    "nn.conv2d_transpose",
    "nn.conv3d_transpose",
    v1=True,
    Conv2DBackpropInput=NODE,
    Conv3DBackpropInputV2=NODE,
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
    confuses its padding with its output padding.
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
    cuts = map(
        _cut,
        lengths,
        spatial(output_shape, rank, data_format),
        *(windows, steps, [padding] * rank),
    )
    whole = ops.conv(
        _spread(input, first, lengths, steps, windows),
        _turned(filters, rank),
        padding="valid",
        data_format=data_format,
        dilation_rate=one(rates),
    )
    return index(whole, [*[slice(None)] * first, *cuts, ...])


def _spread(
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


def _turned(filters: Value, rank: int) -> Value:
    """Return filters with each axis of the window reversed, and channels swapped."""
    return ops.swapaxes(ops.flip(filters, tuple(range(rank))), -1, -2)


def _cut(
    length: DimLike, wanted: DimLike, window: int, step: int, padding: str
) -> slice:
    """Return the part of an axis that ValueFlow gives.

    Source: GetWindowedOutputSize in tensorflow/core/framework/common_shape_fns.cc.
    """
    less = 1 if padding == "same" else window
    if not has_dims(wanted):  # it tells the length, which the input has to have
        told = (wanted - less) // step + 1
        if not has_dims(length) and length != told:
            raise ValueError(f"output_shape: {wanted} of {length} by steps of {step}")
        length = told
    total = dims.extreme("max", (length - 1) * step + window - wanted, 0)
    start = total // 2 if padding == "same" else 0
    return slice(start, start + wanted)
