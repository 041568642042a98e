"""`tf.image`: functions of images `(..., rows, columns, channels)` but for resizing."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_policies.legacy.ops import kinds
from keras_policies.legacy.ops.array_shapes import pad
from keras_policies.legacy.ops.elementwise import of_values
from keras_policies.legacy.ops.kinds import DType, Length, Value
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.dims import DimLike
from keras_policies.legacy.values.evaluator import (
    dtype_of,
    evaluate,
    is_integer_dtype,
    ops,
)

# Rec. ITU-R BT.601-7, as tf.image.rgb_to_grayscale has it.
RGB_WEIGHTS = 0.2989, 0.587, 0.114
AXES = -3, -2, -1


def image_size(images: Any) -> Sequence[DimLike]:
    """Return rows and columns."""
    return computed.shape(images)[-3:-1]


@op("image.crop_to_bounding_box")
def crop_to_bounding_box(
    image: Value,
    offset_height: Length,
    offset_width: Length,
    target_height: Length,
    target_width: Length,
) -> Value:
    """Cut out a rectangle."""
    rows = slice(offset_height, offset_height + target_height)
    columns = slice(offset_width, offset_width + target_width)
    return computed.index(image, [..., rows, columns, slice(None)])


@op("image.pad_to_bounding_box")
def pad_to_bounding_box(
    image: Value,
    offset_height: Length,
    offset_width: Length,
    target_height: Length,
    target_width: Length,
) -> Value:
    """Put an image into a larger one of zeros."""
    rows, columns = image_size(image)
    below = target_height - offset_height - rows
    right = target_width - offset_width - columns
    widths = [[offset_height, below], [offset_width, right], [0, 0]]
    return pad(image, [[0, 0]] * (computed.rank(image) - 3) + widths)


@op("image.resize_with_crop_or_pad")
def crop_or_pad(image: Value, target_height: int, target_width: int) -> Value:
    """Crop or pad on all sides, so that the center stays."""
    rows, columns = kinds.integers(image_size(image))
    height, width = min(rows, target_height), min(columns, target_width)
    top, left = (rows - height) // 2, (columns - width) // 2
    image = crop_to_bounding_box(image, top, left, height, width)
    top, left = (target_height - height) // 2, (target_width - width) // 2
    return pad_to_bounding_box(image, top, left, target_height, target_width)


@op("image.central_crop")
def central_crop(image: Value, central_fraction: float) -> Value:
    """Cut out the center."""
    rows, columns = kinds.integers(image_size(image))
    top, left = (int((n - n * central_fraction) / 2) for n in (rows, columns))
    return crop_to_bounding_box(image, top, left, rows - 2 * top, columns - 2 * left)


@op("image.rot90")
def rot90(image: Value, k: int = 1) -> Value:
    """Rotate counter-clockwise by `k` quarters."""
    for _ in range(k % 4):
        image = ops.flip(ops.swapaxes(image, -3, -2), -3)
    return image


op("image.transpose")(of_values(lambda image: ops.swapaxes(image, -3, -2)))
op("image.flip_left_right")(of_values(lambda image: ops.flip(image, -2)))
op("image.flip_up_down")(of_values(lambda image: ops.flip(image, -3)))


@op("image.adjust_gamma")
def adjust_gamma(image: Value, gamma: Value = 1, gain: Value = 1) -> Value:
    """Return `gain * image ** gamma`."""
    return ops.multiply(ops.power(image, gamma), gain)


@op("image.adjust_contrast", AdjustContrastv2=Raw("images contrast_factor"))
def adjust_contrast(images: Value, contrast_factor: Value) -> Value:
    """Scale the distance from each channel's mean."""
    mean = ops.mean(images, axis=(-3, -2), keepdims=True)
    return ops.add(ops.multiply(ops.subtract(images, mean), contrast_factor), mean)


@op("image.adjust_brightness")
def adjust_brightness(image: Value, delta: Value) -> Value:
    """Add a number to floating images."""
    return ops.add(image, delta)


@op("image.convert_image_dtype")
def convert_image_dtype(image: Value, dtype: DType, saturate: bool = False) -> Value:
    """Change the dtype to a floating one; integers are scaled to [0, 1]."""
    if "int" in dtype:
        raise ValueError(f"dtype: expected a floating dtype, found {dtype!r}")
    found = ops.cast(image, dtype)
    if not is_integer_dtype(dtype_of(image)):
        return found
    return ops.multiply(found, 1 / np.iinfo(dtype_of(image)).max)


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


def _colors(name: str) -> Callable[..., Any]:
    def function(images: Value) -> Value:
        return evaluate(f"image.{name}", images, data_format="channels_last")

    return function


op("image.grayscale_to_rgb")(of_values(lambda images: ops.repeat(images, 3, axis=-1)))
op("image.rgb_to_hsv", RGBToHSV=Raw("images"))(_colors("rgb_to_hsv"))
op("image.hsv_to_rgb", HSVToRGB=Raw("images"))(_colors("hsv_to_rgb"))


def _with_hsv(images: Any, change: Callable[[Sequence[Any]], Sequence[Any]]) -> Any:
    """Return images whose hue, saturation and value are changed."""
    if is_integer_dtype(dtype_of(images)):
        raise ValueError("images: expected a floating dtype")
    last = {"data_format": "channels_last"}
    parts = ops.split(evaluate("image.rgb_to_hsv", images, **last), 3, axis=-1)
    joined = ops.concatenate([*change(parts)], axis=-1)
    return evaluate("image.hsv_to_rgb", joined, **last)


@op("image.adjust_hue", AdjustHue=Raw("image delta"))
def adjust_hue(image: Value, delta: Value) -> Value:
    """Turn the hue, whose circle is 1 long."""
    return _with_hsv(
        image, lambda hsv: (ops.mod(ops.add(hsv[0], delta), 1.0), *hsv[1:])
    )


@op("image.adjust_saturation", AdjustSaturation=Raw("image saturation_factor"))
def adjust_saturation(image: Value, saturation_factor: Value) -> Value:
    """Multiply the saturation, up to 1."""

    def change(hsv: Sequence[Any]) -> Sequence[Any]:
        scaled = ops.multiply(hsv[1], saturation_factor)
        return hsv[0], ops.clip(scaled, 0.0, 1.0), hsv[2]

    return _with_hsv(image, change)
