"""Resizing as TensorFlow computes it: a product with a matrix for rows and columns.

The backends of Keras differ in all but bilinear resizing. Source:
tensorflow/core/kernels/image/{resize_*_op,scale_and_translate_op,sampling_kernels}.
"""

import numpy as np
from keras import ops

from keras_policies.legacy.guards import budget

KEYS_A = -0.5


def _keys(x):
    """Keys' cubic convolution kernel."""
    x = np.abs(x)
    near = ((KEYS_A + 2) * x - (KEYS_A + 3)) * x * x + 1
    far = ((KEYS_A * x - 5 * KEYS_A) * x + 8 * KEYS_A) * x - 4 * KEYS_A
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _mitchell(x):
    x = np.abs(x)
    near = (7 * x / 6 - 2) * x * x + 8 / 9
    far = ((-7 / 18 * x + 2) * x - 10 / 3) * x + 16 / 9
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _lanczos(radius):
    return lambda x: np.where(np.abs(x) < radius, np.sinc(x) * np.sinc(x / radius), 0)


# Method -> (radius in pixels, weight of a pixel by its distance).
KERNELS = {
    "bilinear": (1, lambda x: np.maximum(1 - np.abs(x), 0)),
    "bicubic": (2, _keys),
    "mitchellcubic": (2, _mitchell),
    "lanczos3": (3, _lanczos(3)),
    "lanczos5": (5, _lanczos(5)),
    "gaussian": (1.5, lambda x: np.where(np.abs(x) < 1.5, np.exp(-2 * x * x), 0)),
}
METHODS = "nearest", "area", *KERNELS


def centers(align_corners, half_pixel_centers):
    """Return `(number, length, wanted) -> position` of an output pixel in the input."""

    def position(number, length, wanted):
        if align_corners and wanted > 1:
            return number * (length - 1) / (wanted - 1)
        if half_pixel_centers:
            return (number + 0.5) * length / wanted - 0.5
        return number * length / wanted

    # TensorFlow rounds half up where corners or halves are meant, else takes the floor.
    position.rounds = align_corners or half_pixel_centers
    return position


# Of a matrix of weights, while it is reckoned.
COPIES = 4
HALVES = centers(align_corners=False, half_pixel_centers=True)


def _nearest(length, wanted, position):
    at = position(np.arange(wanted), length, wanted) + (0.5 if position.rounds else 0)
    return np.clip(np.floor(at + 1e-9), 0, length - 1).astype("int32")


def _area(length, wanted):
    ends = np.arange(wanted + 1) * length / wanted
    start, stop = ends[:-1, None], ends[1:, None]
    pixels = np.arange(length)[None]
    return np.clip(np.minimum(stop, pixels + 1) - np.maximum(start, pixels), 0, None)


def matrix(length, wanted, method, position=HALVES, antialias=False):
    """Return the weights of input pixels for each output pixel: `(wanted, length)`."""
    if method == "area":
        weights = _area(length, wanted)
    else:
        at = position(np.arange(wanted), length, wanted)[:, None]
        if method == "bilinear" and not antialias:
            at = np.clip(at, 0, length - 1)
        stretch = max(length / wanted, 1) if antialias else 1
        weights = KERNELS[method][1]((at - np.arange(length)[None]) / stretch)
    return (weights / weights.sum(axis=1, keepdims=True)).astype("float32")


def resize(images, lengths, size, method, antialias=False, centers=HALVES):
    """Resize images `(..., rows, columns, channels)`.

    Args:
        images: KerasTensor.
        lengths: pair of ints, rows and columns now.
        size: pair of ints, rows and columns wanted.
        method: str, one of `METHODS`. All but `"nearest"` give float32.
        antialias: bool, whether to weight by the distance in output pixels.
        centers: callable, see `centers`.
    """
    if method not in METHODS:
        raise ValueError(f"method: expected one of {METHODS}, found {method!r}")
    for axis, length, wanted in zip((-3, -2), lengths, size, strict=True):
        budget.spend(wanted * (1 if method == "nearest" else length), 8 * COPIES)
        if method == "nearest":
            images = ops.take(images, _nearest(length, wanted, centers), axis=axis)
            continue
        weights = matrix(length, wanted, method, centers, antialias)
        last = ops.moveaxis(ops.cast(images, "float32"), axis, -1)
        images = ops.moveaxis(ops.matmul(last, weights.T), -1, axis)
    return images
