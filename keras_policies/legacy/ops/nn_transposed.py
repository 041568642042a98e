"""`tf.nn`: transposed convolutions."""

from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_policies.legacy.ops import kinds
from keras_policies.legacy.ops.array_indexing import index
from keras_policies.legacy.ops.elementwise import constant
from keras_policies.legacy.ops.kinds import (
    Axes,
    Layout,
    Operand,
    Padding,
    Sizes,
    Tensor,
)
from keras_policies.legacy.ops.nn_convolutions import LAST, one, spatial
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.ops.sizes import Size

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
    input: Tensor,
    filters: Operand,
    output_shape: Sizes,
    strides: Axes,
    padding: Padding = "same",
    data_format: Layout = LAST,
    dilations: Axes = 1,
) -> Tensor:
    """Spread each pixel over a window, by a convolution with zeros between the pixels.

    `ops.conv_transpose` does not run in a Functional model: up to Keras 3.15, it
    confuses its padding with its output padding.
    """
    rank = len(input.shape) - 2
    filters = constant(filters, input)
    first = 1 if data_format == LAST else 2
    rates = spatial(dilations, rank, data_format)
    windows = [
        (size - 1) * rate + 1
        for size, rate in zip(filters.shape[:rank], rates, strict=True)
    ]
    steps = spatial(strides, rank, data_format)
    lengths = spatial(input.shape, rank, data_format)
    if None in lengths:
        raise ValueError(f"input: the shape {input.shape}; expected known sizes")
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
    x: Tensor,
    first: int,
    lengths: Sequence[int],
    steps: Sequence[int],
    windows: Sequence[int],
) -> Tensor:
    """Return `x` with `step - 1` zeros after each pixel, and a window around them."""
    for axis, (length, step) in enumerate(zip(lengths, steps, strict=True), first):
        if step > 1:
            pads = [(0, 0)] * (len(x.shape) + 1)
            pads[axis + 1] = (0, step - 1)
            shape = [-1, *x.shape[1:axis], length * step, *x.shape[axis + 1 :]]
            x = ops.reshape(ops.pad(ops.expand_dims(x, axis + 1), pads), shape)
    around = [(0, 0)] * len(x.shape)
    around[first : first + len(windows)] = [(size - 1, size - 1) for size in windows]
    return ops.pad(x, around)


def _turned(filters: Operand, rank: int) -> Operand:
    """Return filters with each axis of the window reversed, and channels swapped."""
    axes = tuple(range(rank))
    if kinds.is_tensor(filters):
        return ops.swapaxes(ops.flip(filters, axes), -1, -2)
    return np.swapaxes(np.flip(filters, axes), -1, -2)


def _cut(
    length: int, wanted: int | Size, window: int, step: int, padding: str
) -> slice:
    """Return the part of an axis that TensorFlow gives.

    Source: GetWindowedOutputSize in tensorflow/core/framework/common_shape_fns.cc.
    """
    if isinstance(wanted, Size):  # as every layer has it
        surplus = max(window - step, 0)
        wanted = length * step + (surplus if padding == "valid" else 0)
    total = max((length - 1) * step + window - wanted, 0)
    start = total // 2 if padding == "same" else 0
    return slice(start, start + wanted)
