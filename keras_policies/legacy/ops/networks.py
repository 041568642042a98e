"""Convolutions, pooling and normalization: by their TensorFlow names."""

import keras
from keras import ops

from keras_policies.legacy.ops import kinds
from keras_policies.legacy.ops.elementwise import constant, together
from keras_policies.legacy.ops.mathematics import added

CHANNELS_LAST = "NHWC", "NWC", "NDHWC", "channels_last"
CHANNELS_FIRST = "NCHW", "NCW", "NCDHW", "channels_first"


def data_format(value):
    """`"channels_last"` or `"channels_first"`."""
    for name, written in (
        ("channels_last", CHANNELS_LAST),
        ("channels_first", CHANNELS_FIRST),
    ):
        if value in written:
            return name
    raise ValueError(f"expected NHWC or NCHW, found {value!r}")


def padding(value):
    """`"same"` or `"valid"`."""
    if not isinstance(value, str) or value.lower() not in ("same", "valid"):
        raise ValueError(f"expected SAME or VALID, found {value!r}")
    return value.lower()


def _spatial(values, rank, layout):
    """Return the settings of the spatial axes: of one number, or of all axes."""
    if isinstance(values, int):
        return [values] * rank
    values = list(values)
    if len(values) == rank + 2:
        return values[1:-1] if layout == "channels_last" else values[2:]
    return values * rank if len(values) == 1 else values


def _settings(rank, strides, padding, data_format, dilations):
    """Return what the convolutions of `keras.ops` take, from TensorFlow's."""
    return {
        "strides": _one(_spatial(strides, rank, data_format)),
        "padding": padding,
        "data_format": data_format,
        "dilation_rate": _one(_spatial(dilations, rank, data_format)),
    }


def _one(values):
    """Return one number for equal ones: a saved operation makes lists of tuples."""
    return values[0] if len(set(values)) == 1 else tuple(values)


def convolution(
    input: kinds.tensor,
    filters: kinds.operand,
    strides: kinds.axes = 1,
    padding: padding = "valid",
    data_format: data_format = "channels_last",
    dilations: kinds.axes = 1,
):
    """`tf.nn.conv1d`, `conv2d`, `conv3d`, `convolution`."""
    settings = _settings(len(input.shape) - 2, strides, padding, data_format, dilations)
    return ops.conv(input, constant(filters, input), **settings)


def depthwise(
    input: kinds.tensor,
    filters: kinds.operand,
    strides: kinds.axes = 1,
    padding: padding = "valid",
    data_format: data_format = "channels_last",
    dilations: kinds.axes = 1,
):
    """`tf.nn.depthwise_conv2d`."""
    settings = _settings(2, strides, padding, data_format, dilations)
    return ops.depthwise_conv(input, constant(filters, input), **settings)


def _pooling(kind):
    """Return a pooling function; operations of Keras do not open once saved."""

    def function(
        input: kinds.tensor,
        ksize: kinds.axes,
        strides: kinds.axes,
        padding: padding,
        data_format: data_format = "channels_last",
    ):
        rank = len(input.shape) - 2
        layer = getattr(keras.layers, f"{kind}Pooling{rank}D")(
            tuple(_spatial(ksize, rank, data_format)),
            strides=tuple(_spatial(strides, rank, data_format)),
            padding=padding,
            data_format=data_format,
            dtype=input.dtype,
        )
        return layer(input)

    return function


def pool(
    input: kinds.tensor,
    ksize: kinds.axes,
    pooling_type: kinds.string,
    strides: kinds.axes = 1,
    padding: padding = "valid",
    data_format: data_format = "channels_last",
    dilations: kinds.axes = 1,
):
    """`tf.nn.pool`."""
    if dilations not in (1, (1, 1)):
        raise ValueError(f"dilations: expected 1, found {dilations}")
    kind = {"MAX": "Max", "AVG": "Average"}[pooling_type]
    return _pooling(kind)(input, ksize, strides, padding, data_format)


def separable(
    input: kinds.tensor,
    depthwise_filter: kinds.operand,
    pointwise_filter: kinds.operand,
    strides: kinds.axes = 1,
    padding: padding = "valid",
    data_format: data_format = "channels_last",
    dilations: kinds.axes = 1,
):
    """`tf.nn.separable_conv2d`."""
    filters = [constant(one, input) for one in (depthwise_filter, pointwise_filter)]
    settings = _settings(2, strides, padding, data_format, dilations)
    return ops.separable_conv(input, *filters, **settings)


def sigmoid_cross_entropy(labels: kinds.operand, logits: kinds.operand):
    """`tf.nn.sigmoid_cross_entropy_with_logits`."""
    labels, logits = together(labels, logits)
    return ops.binary_crossentropy(labels, logits, from_logits=True)


def softmax_cross_entropy(
    labels: kinds.operand, logits: kinds.operand, axis: kinds.integer = -1
):
    """`tf.nn.softmax_cross_entropy_with_logits`."""
    labels, logits = together(labels, logits)
    return ops.categorical_crossentropy(labels, logits, from_logits=True, axis=axis)


def sparse_cross_entropy(labels: kinds.tensor, logits: kinds.tensor):
    """`tf.nn.sparse_softmax_cross_entropy_with_logits`."""
    return ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)


def in_top_k(predictions: kinds.tensor, targets: kinds.tensor, k: kinds.integer):
    """`tf.math.in_top_k`."""
    return ops.in_top_k(targets, predictions, k)


def binary_crossentropy(
    target: kinds.operand, output: kinds.operand, from_logits: kinds.boolean = False
):
    """`tf.keras.backend.binary_crossentropy`."""
    target, output = together(target, output)
    return ops.binary_crossentropy(target, output, from_logits=from_logits)


def categorical_crossentropy(
    target: kinds.operand,
    output: kinds.operand,
    from_logits: kinds.boolean = False,
    axis: kinds.integer = -1,
):
    """`tf.keras.backend.categorical_crossentropy`."""
    target, output = together(target, output)
    return ops.categorical_crossentropy(target, output, from_logits, axis)


def bias_add(
    value: kinds.tensor,
    bias: kinds.operand,
    data_format: data_format = "channels_last",
):
    """`tf.nn.bias_add`."""
    bias = constant(bias, value)
    if data_format == "channels_first":
        bias = ops.reshape(bias, [1, -1] + [1] * (len(value.shape) - 2))
    return added(value, bias)


def depth_to_space(
    input: kinds.tensor,
    block_size: kinds.integer,
    data_format: data_format = "channels_last",
):
    """`tf.nn.depth_to_space`."""
    rows, columns, depth = _image(input, data_format)
    inner = depth // block_size**2
    x = ops.reshape(input, (-1, rows, columns, block_size, block_size, inner))
    x = ops.transpose(x, (0, 1, 3, 2, 4, 5))
    return ops.reshape(x, (-1, rows * block_size, columns * block_size, inner))


def space_to_depth(
    input: kinds.tensor,
    block_size: kinds.integer,
    data_format: data_format = "channels_last",
):
    """`tf.nn.space_to_depth`."""
    rows, columns, depth = _image(input, data_format)
    rows, columns = rows // block_size, columns // block_size
    x = ops.reshape(input, (-1, rows, block_size, columns, block_size, depth))
    x = ops.transpose(x, (0, 1, 3, 2, 4, 5))
    return ops.reshape(x, (-1, rows, columns, depth * block_size**2))


def _image(images, layout="channels_last"):
    """Return rows, columns and channels, which have to be known."""
    if layout != "channels_last" or None in images.shape[1:]:
        raise ValueError(
            f"input: {layout} of the shape {images.shape}; expected channels_last, "
            "rows and columns known"
        )
    return images.shape[1:]


def moments(x: kinds.tensor, axes: kinds.axes, keepdims: kinds.boolean = False):
    """`tf.nn.moments`."""
    return tuple(ops.moments(x, axes, keepdims=keepdims))


def batch_normalization(
    x: kinds.tensor,
    mean: kinds.operand,
    variance: kinds.operand,
    offset: kinds.operand = 0.0,
    scale: kinds.operand = 1.0,
    variance_epsilon: kinds.number = 1e-3,
):
    """`tf.nn.batch_normalization`."""
    mean, variance, offset, scale = (
        constant(value, x) for value in (mean, variance, offset, scale)
    )
    root = ops.sqrt(ops.add(variance, variance_epsilon))
    normal = ops.divide(ops.subtract(x, mean), root)
    return ops.add(ops.multiply(normal, scale), offset)


FUNCTIONS = {
    "math.in_top_k": in_top_k,
    "keras.backend.binary_crossentropy": binary_crossentropy,
    "keras.backend.categorical_crossentropy": categorical_crossentropy,
    "nn.pool": pool,
    "nn.separable_conv2d": separable,
    "nn.sigmoid_cross_entropy_with_logits": sigmoid_cross_entropy,
    "nn.softmax_cross_entropy_with_logits": softmax_cross_entropy,
    "nn.sparse_softmax_cross_entropy_with_logits": sparse_cross_entropy,
    "nn.convolution": convolution,
    "nn.depthwise_conv2d": depthwise,
    "nn.max_pool": _pooling("Max"),
    "nn.avg_pool": _pooling("Average"),
    "nn.bias_add": bias_add,
    "nn.depth_to_space": depth_to_space,
    "nn.space_to_depth": space_to_depth,
    "nn.moments": moments,
    "nn.batch_normalization": batch_normalization,
}
