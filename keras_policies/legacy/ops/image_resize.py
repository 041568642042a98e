"""`tf.image`: resizing, as products with matrices of weights for rows and columns.

Keras's backends agree with TensorFlow only about bilinear resizing. Source:
tensorflow/core/kernels/image/{resize_*_op,scale_and_translate_op,sampling_kernels}.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import converters
from keras_policies.legacy.ops.converters import Lengths, Value
from keras_policies.legacy.ops.registry import functions, op
from keras_policies.legacy.values import computed, formulas
from keras_policies.legacy.values.dims import Dim, DimLike
from keras_policies.legacy.values.evaluator import has_dims, ops


def _cubic(b: float, c: float) -> str:
    """Return a kernel of the family of Mitchell and Netravali (1988)."""
    near = 12 - 9 * b - 6 * c, 12 * b + 6 * c - 18, 0.0, 6 - 2 * b
    far = -b - 6 * c, 6 * b + 30 * c, -12 * b - 48 * c, 8 * b + 24 * c
    inner, outer = (
        f"((({p} * d + {q}) * d + {r}) * d + {s}) / 6.0" for p, q, r, s in (near, far)
    )
    return f"where(d < 1.0, {inner}, where(d < 2.0, {outer}, 0.0))"


def _lanczos(radius: float) -> str:
    sincs = (
        f"where(d == 0.0, 1.0, sin({x}) / where(d == 0.0, 1.0, {x}))"
        for x in (f"(d * {math.pi})", f"(d * {math.pi / radius})")
    )
    return f"where(d < {radius}, {' * '.join(sincs)}, 0.0)"


# Method -> the weight of a pixel at the distance `d`, in pixels.
KERNELS = {
    "bilinear": "maximum(1.0 - d, 0.0)",
    "bicubic": _cubic(0, 1 / 2),  # of Keys
    "mitchellcubic": _cubic(1 / 3, 1 / 3),
    "lanczos3": _lanczos(3.0),
    "lanczos5": _lanczos(5.0),
    "gaussian": "where(d < 1.5, exp(square(d) * -2.0), 0.0)",
}
METHODS = "nearest", "area", *KERNELS
# "bicubic" for pixels whose centers are not half a pixel from their edges.
OLD_CUBIC = _cubic(0, 3 / 4)
TABLE_SIZE = 1024  # positions in a pixel for which TensorFlow tabulates weights


def _weight(kernel: str, distance: Any) -> Any:
    return formulas.compiled(kernel)({"d": ops.abs(distance)})


def _dtype(*lengths: DimLike) -> str:
    """Return the dtype of positions; nodes are computed in float32."""
    return "float32" if any(map(has_dims, lengths)) else "float64"


def _float(length: DimLike) -> Any:
    return ops.cast(length, "float32") if isinstance(length, Dim) else float(length)


def _numbers(count: DimLike, dtype: str) -> Any:
    return ops.cast(computed.arange(0, count), dtype)


@dataclasses.dataclass(frozen=True)
class Centers:
    """Where in the input the centers of the output's pixels lie."""

    align_corners: bool = False  # the first and last pixels keep their places
    half_pixels: bool = True  # the center of a pixel is half a pixel from its edge

    def positions(self, length: DimLike, wanted: DimLike) -> Any:
        """Return the positions of `wanted` pixels among `length`."""
        number = _numbers(wanted, _dtype(length, wanted))
        step = self.step(length, wanted)
        if self.half_pixels and not self.align_corners:
            return ops.subtract(ops.multiply(ops.add(number, 0.5), step), 0.5)
        return ops.multiply(number, step)

    def step(self, length: DimLike, wanted: DimLike) -> Any:
        """Return the distance between two of `wanted` pixels among `length`."""
        if self.align_corners and wanted != 1:
            length, wanted = length - 1, wanted - 1
            return ops.divide(_float(length), ops.maximum(_float(wanted), 1.0))
        return ops.divide(_float(length), _float(wanted))

    def nearest(self, length: DimLike, wanted: DimLike) -> Any:
        """Return the indices of the pixels nearest to the positions.

        TensorFlow rounds half up if either setting is on, otherwise down.
        """
        half = 0.5 if self.align_corners or self.half_pixels else 0.0
        at = ops.floor(ops.add(self.positions(length, wanted), half + 1e-9))
        last = ops.subtract(_float(length), 1.0)
        return ops.cast(ops.maximum(ops.minimum(at, last), 0.0), "int32")


def _rounded(length: Any, wanted: Any) -> Any:
    """Return positions as TensorFlow rounds them.

    This matters at the edge of the Gaussian kernel, which is not 0.
    """
    scale = np.float32(wanted) / np.float32(length)
    numbers = np.arange(wanted, dtype="float32")[:, None]
    return (numbers + np.float32(0.5)) * (np.float32(1) / scale) - np.float32(0.5)


def _area(length: DimLike, wanted: DimLike, centers: Centers) -> Any:
    """Return the overlap of pixels and output pixels; the last pixel has no end."""
    dtype = _dtype(length, wanted)
    ends = ops.multiply(_numbers(wanted + 1, dtype), centers.step(length, wanted))
    start, stop = (
        ops.expand_dims(computed.index(ends, [part]), -1)
        for part in (slice(None, -1), slice(1, None))
    )
    pixels = ops.expand_dims(_numbers(length, dtype), 0)
    is_last = ops.equal(pixels, ops.subtract(_float(length), 1.0))
    last = ops.where(is_last, stop, ops.minimum(stop, ops.add(pixels, 1.0)))
    return ops.maximum(ops.subtract(last, ops.maximum(start, pixels)), 0.0)


def _old_cubic(distance: Any, pixels: Any, length: DimLike) -> Any:
    """Return weights; pixels beyond an edge count as the pixel at the edge.

    Positions are between 0 and `length`.
    """
    before, at, after, second = (
        _weight(OLD_CUBIC, ops.add(distance, n)) for n in (1.0, 0.0, -1.0, -2.0)
    )
    is_first = ops.equal(pixels, 0.0)
    is_last = ops.equal(pixels, ops.subtract(_float(length), 1.0))
    weights = ops.add(at, ops.where(is_first, before, 0.0))
    return ops.add(weights, ops.where(is_last, ops.add(after, second), 0.0))


def _matrix(
    length: DimLike, wanted: DimLike, method: str, centers: Centers, *, antialias: bool
) -> Any:
    """Return the weights of input pixels for output pixels, `(wanted, length)`."""
    if method == "area":
        weights = _area(length, wanted, centers)
    else:
        at = ops.expand_dims(centers.positions(length, wanted), -1)
        if method == "gaussian" and not has_dims(at):
            at = _rounded(length, wanted)
        if method == "bilinear" and not antialias:
            last = ops.subtract(_float(length), 1.0)
            at = ops.maximum(ops.minimum(at, last), 0.0)
        if method == "bicubic" and not antialias:
            at = ops.divide(ops.round(ops.multiply(at, TABLE_SIZE)), TABLE_SIZE)
        pixels = ops.expand_dims(_numbers(length, _dtype(length, wanted)), 0)
        distance = ops.subtract(at, pixels)
        if antialias:
            stretch = ops.divide(_float(length), _float(wanted))
            distance = ops.divide(distance, ops.maximum(stretch, 1.0))
        if method == "bicubic" and not centers.half_pixels:
            weights = _old_cubic(distance, pixels, length)
        else:
            weights = _weight(KERNELS[method], distance)
    total = ops.sum(weights, axis=1, keepdims=True)
    return ops.cast(ops.divide(weights, total), "float32")


# A matrix of weights and its intermediate results, in arrays of its size.
COPIES = 4
METHODS_OF_1 = "bilinear", "nearest", "bicubic", "area"


def _resized(
    images: Any,
    size: Sequence[DimLike],
    method: str,
    centers: Centers,
    *,
    antialias: bool,
) -> Any:
    """Return resized images, in float32 unless the method is `"nearest"`."""
    if method not in METHODS:
        raise ValueError(f"method: expected one of {METHODS}, found {method!r}")
    pairs = zip((-3, -2), computed.shape(images)[-3:-1], size, strict=True)
    for axis, length, wanted in pairs:
        items = wanted * (1 if method == "nearest" else length)
        budget.spend(1 if has_dims(items) else items, 8 * COPIES)
        if method == "nearest":
            images = ops.take(images, centers.nearest(length, wanted), axis=axis)
            continue
        weights = _matrix(length, wanted, method, centers, antialias=antialias)
        last = ops.moveaxis(ops.cast(images, "float32"), axis, -1)
        weights = ops.transpose(weights, axes=(1, 0))
        images = ops.moveaxis(ops.matmul(last, weights), -1, axis)
    return images


@op("image.resize")
def resize(
    images: Value,
    size: Lengths,
    method: str = "bilinear",
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
) -> Value:
    """Resize, with the centers of pixels half a pixel from their edges."""
    if preserve_aspect_ratio:
        lengths = converters.integers(computed.shape(images)[-3:-1])
        height, width = converters.integers(size)
        scale = min(height / lengths[0], width / lengths[1])
        size = [round(length * scale) for length in lengths]
    return _resized(images, size, method.lower(), Centers(), antialias=antialias)


# Name of a kernel in graphs -> method.
KERNEL_TYPES = {"triangle": "bilinear", "keyscubic": "bicubic"}


@op("ScaleAndTranslate")
def scale_and_translate(
    images: Value,
    size: tuple[int, ...],
    scale: Value,
    translation: Value,
    kernel_type: str = "lanczos3",
    antialias: bool = True,
) -> Value:
    """Resize with a kernel; `tf.image.resize` does not translate."""
    lengths = converters.integers(computed.shape(images)[-3:-1])
    expected = np.divide(size, lengths)
    if np.any(translation) or not np.allclose(np.asarray(scale), expected, 1e-5):
        raise ValueError(f"scale: expected {expected} and no translation")
    method = KERNEL_TYPES.get(kernel_type, kernel_type)
    return _resized(images, size, method, Centers(), antialias=antialias)


def _resized_by_1(
    method: str,
    images: Any,
    size: Sequence[DimLike],
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Any:
    """Resize as TensorFlow 1 did."""
    centers = Centers(align_corners, half_pixel_centers)
    return _resized(images, size, method, centers, antialias=False)


for _method, _names in (
    ("bilinear", "compat.v1.image.resize_bilinear ResizeBilinear"),
    ("nearest", "compat.v1.image.resize_nearest_neighbor ResizeNearestNeighbor"),
    ("area", "compat.v1.image.resize_area ResizeArea"),
    ("bicubic", "compat.v1.image.resize_bicubic ResizeBicubic"),
):
    functions(
        "images size:Lengths align_corners:bool=False half_pixel_centers:bool=False",
        (functools.partial(_resized_by_1, _method), _names),
    )


@op("compat.v1.image.resize_images")
def resize_images(
    images: Value,
    size: Lengths,
    method: object = 0,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
) -> Value:
    """Resize by one of `METHODS_OF_1`, or its number."""
    if preserve_aspect_ratio or method not in (*METHODS_OF_1, *range(4)):
        raise ValueError(f"method: {method} with preserve_aspect_ratio")
    name = METHODS_OF_1[method] if isinstance(method, int) else str(method)
    return _resized_by_1(name, images, size, align_corners)
