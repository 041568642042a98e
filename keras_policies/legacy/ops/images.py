"""`tf.image`, by its TensorFlow names. Images are `(..., rows, columns, channels)`."""

import numpy as np
from keras import ops

from keras_policies.legacy.ops import kinds, resampling

# Rec. ITU-R BT.601-7, as tf.image.rgb_to_grayscale has it.
RGB_WEIGHTS = 0.2989, 0.587, 0.114


def _size(images):
    """Return rows and columns, which have to be known."""
    return kinds.integers(images.shape[-3:-1])


def resize(
    images: kinds.tensor,
    size: kinds.integers,
    method: kinds.string = "bilinear",
    preserve_aspect_ratio: kinds.boolean = False,
    antialias: kinds.boolean = False,
):
    """`tf.image.resize`, which takes the centers of pixels at their halves."""
    if preserve_aspect_ratio:
        rows, columns = _size(images)
        scale = min(size[0] / rows, size[1] / columns)
        size = round(rows * scale), round(columns * scale)
    return resampling.resize(images, _size(images), size, method.lower(), antialias)


def _of_graph(method):
    """Return `tf.compat.v1.image.resize_bilinear` and its like."""

    def function(
        images: kinds.tensor,
        size: kinds.integers,
        align_corners: kinds.boolean = False,
        half_pixel_centers: kinds.boolean = False,
    ):
        centers = resampling.centers(align_corners, half_pixel_centers)
        return resampling.resize(images, _size(images), size, method, centers=centers)

    return function


def legacy_resize(
    images: kinds.tensor,
    size: kinds.integers,
    method: kinds.integer = 0,
    align_corners: kinds.boolean = False,
    preserve_aspect_ratio: kinds.boolean = False,
):
    """`tf.compat.v1.image.resize_images`, bilinear (0) or nearest neighbor (1)."""
    if preserve_aspect_ratio or method not in (0, 1):
        raise ValueError(f"method: {method} with preserve_aspect_ratio")
    found = _of_graph("nearest" if method else "bilinear")
    return found(images, size, align_corners)


def crop(
    image: kinds.tensor,
    offset_height: kinds.integer,
    offset_width: kinds.integer,
    target_height: kinds.integer,
    target_width: kinds.integer,
):
    """`tf.image.crop_to_bounding_box`."""
    rows = slice(offset_height, offset_height + target_height)
    columns = slice(offset_width, offset_width + target_width)
    return image[_of_rank(image, rows, columns)]


def _of_rank(image, *last):
    """Return an index of the last axes but the channels."""
    return (slice(None),) * (len(image.shape) - 3) + (*last, slice(None))


def pad(
    image: kinds.tensor,
    offset_height: kinds.integer,
    offset_width: kinds.integer,
    target_height: kinds.integer,
    target_width: kinds.integer,
):
    """`tf.image.pad_to_bounding_box`."""
    rows, columns = _size(image)
    below = target_height - offset_height - rows
    right = target_width - offset_width - columns
    widths = [[0, 0]] * (len(image.shape) - 3)
    widths += [[offset_height, below], [offset_width, right], [0, 0]]
    return ops.pad(image, widths)


def crop_or_pad(
    image: kinds.tensor, target_height: kinds.integer, target_width: kinds.integer
):
    """`tf.image.resize_with_crop_or_pad`, about the center."""
    rows, columns = _size(image)
    image = crop(
        image,
        max(rows - target_height, 0) // 2,
        max(columns - target_width, 0) // 2,
        min(rows, target_height),
        min(columns, target_width),
    )
    rows, columns = _size(image)
    return pad(
        image,
        (target_height - rows) // 2,
        (target_width - columns) // 2,
        target_height,
        target_width,
    )


def central_crop(image: kinds.tensor, central_fraction: kinds.number):
    """`tf.image.central_crop`."""
    spans = []
    for length in _size(image):
        start = int((length - length * central_fraction) / 2)
        spans.append((start, length - 2 * start))
    (top, height), (left, width) = spans
    return crop(image, top, left, height, width)


def rotate(image: kinds.tensor, k: kinds.integer = 1):
    """`tf.image.rot90`, counter-clockwise."""
    for _ in range(k % 4):
        image = ops.flip(ops.swapaxes(image, -3, -2), -3)
    return image


def transpose(image: kinds.tensor):
    """`tf.image.transpose`."""
    return ops.swapaxes(image, -3, -2)


def adjust_gamma(image: kinds.tensor, gamma: kinds.number = 1, gain: kinds.number = 1):
    """`tf.image.adjust_gamma`."""
    return ops.multiply(ops.power(image, gamma), gain)


def convert_dtype(
    image: kinds.tensor, dtype: kinds.dtype, saturate: kinds.boolean = False
):
    """`tf.image.convert_image_dtype`, of integers to floats in [0, 1]."""
    is_integer = "int" in image.dtype
    if "int" in dtype:
        raise ValueError(f"dtype: expected a floating dtype, found {dtype!r}")
    image, scale = ops.cast(image, dtype), image.dtype
    return ops.multiply(image, 1 / np.iinfo(scale).max) if is_integer else image


def flip_left_right(image: kinds.tensor):
    """`tf.image.flip_left_right`."""
    return ops.flip(image, -2)


def flip_up_down(image: kinds.tensor):
    """`tf.image.flip_up_down`."""
    return ops.flip(image, -3)


def rgb_to_grayscale(images: kinds.tensor):
    """`tf.image.rgb_to_grayscale`."""
    weights = np.asarray(RGB_WEIGHTS, dtype=images.dtype)
    return ops.sum(ops.multiply(images, weights), axis=-1, keepdims=True)


def grayscale_to_rgb(images: kinds.tensor):
    """`tf.image.grayscale_to_rgb`."""
    return ops.repeat(images, 3, axis=-1)


def standardized(image: kinds.tensor):
    """`tf.image.per_image_standardization`: the deviation is at least `1 / √n`."""
    axes = (-3, -2, -1)
    image = ops.cast(image, "float32")
    mean = ops.mean(image, axis=axes, keepdims=True)
    least = float(np.prod(kinds.integers(image.shape[-3:]))) ** -0.5
    deviation = ops.maximum(ops.std(image, axis=axes, keepdims=True), least)
    return ops.divide(ops.subtract(image, mean), deviation)


def adjust_contrast(images: kinds.tensor, contrast_factor: kinds.number):
    """`tf.image.adjust_contrast`."""
    mean = ops.mean(images, axis=(-3, -2), keepdims=True)
    return ops.add(ops.multiply(ops.subtract(images, mean), contrast_factor), mean)


def adjust_brightness(image: kinds.tensor, delta: kinds.number):
    """`tf.image.adjust_brightness` of floating images."""
    return ops.add(image, delta)


def _colors(name):
    def function(images: kinds.tensor):
        if not hasattr(ops.image, name):
            raise ValueError(f"this Keras has no keras.ops.image.{name}")
        return getattr(ops.image, name)(images, data_format="channels_last")

    return function


FUNCTIONS = {
    "image.rgb_to_hsv": _colors("rgb_to_hsv"),
    "image.hsv_to_rgb": _colors("hsv_to_rgb"),
    "image.legacy_resize": legacy_resize,
    "image.legacy_resize_area": _of_graph("area"),
    "image.legacy_resize_bicubic": _of_graph("bicubic"),
    "image.legacy_resize_bilinear": _of_graph("bilinear"),
    "image.legacy_resize_nearest": _of_graph("nearest"),
    "image.crop_to_bounding_box": crop,
    "image.pad_to_bounding_box": pad,
    "image.resize_with_crop_or_pad": crop_or_pad,
    "image.central_crop": central_crop,
    "image.rot90": rotate,
    "image.transpose": transpose,
    "image.adjust_gamma": adjust_gamma,
    "image.convert_image_dtype": convert_dtype,
    "image.resize": resize,
    "image.flip_left_right": flip_left_right,
    "image.flip_up_down": flip_up_down,
    "image.rgb_to_grayscale": rgb_to_grayscale,
    "image.grayscale_to_rgb": grayscale_to_rgb,
    "image.per_image_standardization": standardized,
    "image.adjust_contrast": adjust_contrast,
    "image.adjust_brightness": adjust_brightness,
}
