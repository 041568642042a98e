"""`tf.image`, except resizing: functions of images `(..., rows, columns, channels)`."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import converters
from keras_policies.legacy.ops.array_shapes import pad
from keras_policies.legacy.ops.converters import LAST, DType, Padding, Value
from keras_policies.legacy.ops.nn_convolutions import scalar_if_equal, spatial
from keras_policies.legacy.ops.registry import functions, op
from keras_policies.legacy.values import computed, evaluator
from keras_policies.legacy.values.dims import Dim, DimLike
from keras_policies.legacy.values.evaluator import dtype_of, evaluate, ops

# Rec. ITU-R BT.601-7, as in tf.image.rgb_to_grayscale.
RGB_WEIGHTS = 0.2989, 0.587, 0.114
AXES = -3, -2, -1
TO_HSV, TO_RGB = "image.rgb_to_hsv", "image.hsv_to_rgb"


functions(
    "image",
    "image.transpose: swapaxes(image, -3, -2)",
    "image.flip_left_right: flip(image, -2)",
    "image.flip_up_down: flip(image, -3)",
)
functions("image delta", "image.adjust_brightness: add")
functions("image gamma=1 gain=1", "image.adjust_gamma: image**gamma * gain")


def _cropped(image: Any, top: Any, left: Any, height: Any, width: Any) -> Any:
    rows, columns = slice(top, top + height), slice(left, left + width)
    return computed.index(image, [..., rows, columns, slice(None)])


def _padded(image: Any, top: Any, left: Any, height: Any, width: Any) -> Any:
    """Put an image into a larger one of zeros."""
    rows, columns = computed.shape(image)[-3:-1]
    below, right = height - top - rows, width - left - columns
    widths = [[top, below], [left, right], [0, 0]]
    return pad(image, [[0, 0]] * (computed.rank(image) - 3) + widths)


functions(
    "image offset_height:Length offset_width:Length target_height:Length "
    "target_width:Length",
    (_cropped, "image.crop_to_bounding_box"),
    (_padded, "image.pad_to_bounding_box"),
)


@op("image.resize_with_crop_or_pad")
def crop_or_pad(image: Value, target_height: int, target_width: int) -> Value:
    """Crop or pad on all sides, so that the center stays."""
    rows, columns = converters.integers(computed.shape(image)[-3:-1])
    height, width = min(rows, target_height), min(columns, target_width)
    top, left = (rows - height) // 2, (columns - width) // 2
    image = _cropped(image, top, left, height, width)
    top, left = (target_height - height) // 2, (target_width - width) // 2
    return _padded(image, top, left, target_height, target_width)


@op("image._with_aspect_ratio_of")
def with_aspect_ratio_of(image: Value, size: tuple[int, ...]) -> Value:
    """Cut out the largest centered part that has the aspect ratio of a size."""
    rows, columns = converters.integers(computed.shape(image)[-3:-1])
    sides = np.float32(columns * size[0]), np.float32(rows * size[1])
    height, width = (
        min(side, int(other / np.float32(n)))
        for side, other, n in zip((rows, columns), sides, size[::-1], strict=True)
    )
    top, left = (rows - height) // 2, (columns - width) // 2
    return _cropped(image, top, left, height, width)


@op("image.central_crop")
def central_crop(image: Value, central_fraction: float) -> Value:
    """Cut out the center."""
    rows, columns = converters.integers(computed.shape(image)[-3:-1])
    top, left = (int((n - n * central_fraction) / 2) for n in (rows, columns))
    return _cropped(image, top, left, rows - 2 * top, columns - 2 * left)


@op("image.rot90")
def rot90(image: Value, k: int = 1) -> Value:
    """Rotate counter-clockwise by `k` quarters."""
    for _ in range(k % 4):
        image = ops.flip(ops.swapaxes(image, -3, -2), -3)
    return image


@op("image.adjust_contrast AdjustContrastv2")
def adjust_contrast(images: Value, contrast_factor: Value) -> Value:
    """Scale the distance to the mean of each channel."""
    mean = ops.mean(images, axis=(-3, -2), keepdims=True)
    return ops.add(ops.multiply(ops.subtract(images, mean), contrast_factor), mean)


@op("image.convert_image_dtype")
def convert_image_dtype(image: Value, dtype: DType, saturate: bool = False) -> Value:
    """Change the dtype to a floating one; integers are scaled to [0, 1]."""
    if "int" in dtype:
        raise ValueError(f"dtype: expected a floating dtype, found {dtype!r}")
    cast = ops.cast(image, dtype)
    if not evaluator.is_integer_dtype(dtype_of(image)):
        return cast
    return ops.multiply(cast, 1 / np.iinfo(dtype_of(image)).max)


@op("image.per_image_standardization")
def per_image_standardization(image: Value) -> Value:
    """Scale to mean 0 and deviation 1; a deviation counts as at least `1 / √n`."""
    image = ops.cast(image, "float32")
    mean = ops.mean(image, axis=AXES, keepdims=True)
    count = ops.cast(math.prod(computed.shape(image)[-3:]), "float32")
    deviation = ops.std(image, axis=AXES, keepdims=True)
    deviation = ops.maximum(deviation, ops.rsqrt(count))
    return ops.divide(ops.subtract(image, mean), deviation)


@op("image.rgb_to_grayscale")
def rgb_to_grayscale(images: Value) -> Value:
    """Return one channel."""
    weights = np.asarray(RGB_WEIGHTS, dtype=dtype_of(images))
    return ops.sum(ops.multiply(images, weights), axis=-1, keepdims=True)


def _with_hsv(images: Any, change: Callable[..., Sequence[Any]]) -> Any:
    """Return images with another hue, saturation and value."""
    if evaluator.is_integer_dtype(dtype_of(images)):
        raise ValueError("images: expected a floating dtype")
    parts = ops.split(evaluate(TO_HSV, images, data_format=LAST), 3, axis=-1)
    changed = ops.concatenate([*change(*parts)], axis=-1)
    return evaluate(TO_RGB, changed, data_format=LAST)


def _with_hue(image: Any, delta: Any) -> Any:
    """Turn the hue, whose circle is 1 long."""
    return _with_hsv(image, lambda h, s, v: (ops.mod(ops.add(h, delta), 1.0), s, v))


functions(
    "images",
    f"image.rgb_to_hsv RGBToHSV: {TO_HSV}(images, data_format='{LAST}')",
    f"image.hsv_to_rgb HSVToRGB: {TO_RGB}(images, data_format='{LAST}')",
    "image.grayscale_to_rgb: repeat(images, 3, axis=-1)",
)
functions("image delta", (_with_hue, "image.adjust_hue AdjustHue"))


@op("image.adjust_saturation AdjustSaturation")
def adjust_saturation(image: Value, saturation_factor: Value) -> Value:
    """Multiply the saturation, up to 1."""

    def change(h: Any, s: Any, v: Any) -> Sequence[Any]:
        return h, ops.clip(ops.multiply(s, saturation_factor), 0.0, 1.0), v

    return _with_hsv(image, change)


METHODS = "bilinear", "nearest"


def _weights(
    first: Any, last: Any, length: DimLike, count: int, method: str
) -> tuple[Any, Any]:
    """Return the weights of pixels for `count` positions, and which are inside.

    A crop is from `first` to `last`, as shares of the axis. The shapes of the results
    are `(boxes, count, length)` and `(boxes, count)`.
    """
    end = ops.cast(length - 1, "float32") if isinstance(length, Dim) else length - 1.0
    share = ops.cast(computed.arange(0, count), "float32")
    share = ops.divide(share, count - 1.0) if count > 1 else ops.add(share, 0.5)
    size = ops.expand_dims(ops.subtract(last, first), -1)
    at = ops.add(ops.expand_dims(first, -1), ops.multiply(size, share))
    at = ops.multiply(at, end)
    is_inside = ops.logical_and(ops.greater_equal(at, 0.0), ops.less_equal(at, end))
    if method == "nearest":
        at = ops.floor(ops.add(at, 0.5))
    pixels = ops.cast(computed.arange(0, length), "float32")
    distance = ops.abs(ops.subtract(ops.expand_dims(at, -1), pixels))
    return ops.maximum(ops.subtract(1.0, distance), 0.0), is_inside


@op("image.crop_and_resize CropAndResize")
def crop_and_resize(
    image: Value,
    boxes: Value,
    box_indices: Value,
    crop_size: tuple[int, ...],
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Value:
    """Return the part of an image in each box, all in one size."""
    if method not in METHODS:
        raise ValueError(f"method: expected one of {METHODS}, found {method!r}")
    top, left, bottom, right = ops.unstack(boxes, 4, axis=1)
    height, width = computed.shape(image)[1:3]
    rows, is_row = _weights(top, bottom, height, crop_size[0], method)
    columns, is_column = _weights(left, right, width, crop_size[1], method)
    images = ops.take(ops.cast(image, "float32"), box_indices, axis=0)
    crops = ops.matmul(ops.expand_dims(columns, 1), images)
    crops = ops.matmul(ops.expand_dims(rows, 1), ops.swapaxes(crops, 1, 2))
    is_row, is_column = ops.expand_dims(is_row, -1), ops.expand_dims(is_column, -2)
    is_inside = ops.expand_dims(ops.logical_and(is_row, is_column), -1)
    return ops.where(is_inside, ops.swapaxes(crops, 1, 2), extrapolation_value)


@op(
    "image.extract_patches compat.v1.extract_image_patches "
    "compat.v1.image.extract_image_patches ExtractImagePatches(images; sizes=ksizes "
    "strides rates padding)",
    renamed={"ksizes": "sizes"},
)
def extract_patches(
    images: Value,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    rates: tuple[int, ...],
    padding: Padding,
) -> Value:
    """Return the patch around each position as its channels, row by row.

    This is a convolution with one filter for each item of a patch, as in
    `ops.image.extract_patches`, which does not accept pairs of strides in Keras 3.8.
    """
    rows, columns = spatial(sizes, 2, LAST)
    channels = converters.integer(computed.shape(images)[-1])
    size = rows * columns * channels
    budget.spend(size**2, 4)
    each = np.eye(size, dtype=dtype_of(images))
    return ops.conv(
        images,
        each.reshape(rows, columns, channels, size),
        strides=scalar_if_equal(spatial(strides, 2, LAST)),
        padding=padding,
        data_format=LAST,
        dilation_rate=scalar_if_equal(spatial(rates, 2, LAST)),
    )
