"""`tf.image`: resizing, as a product with a matrix of weights for rows and columns.

The backends of Keras agree with TensorFlow on bilinear resizing alone.
"""

from collections.abc import Callable, Sequence
from typing import Any

from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import kinds, resampling
from keras_policies.legacy.ops.kinds import Lengths, Value
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.ops.resampling import METHODS, Centers
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.dims import DimLike
from keras_policies.legacy.values.evaluator import has_dims, ops

# A matrix of weights and its intermediate results, in arrays of its size.
COPIES = 4
METHODS_OF_1 = "bilinear", "nearest", "bicubic", "area"
RESIZE = Raw("images size", "align_corners half_pixel_centers")


def _resized(
    images: Any, size: Sequence[DimLike], method: str, centers: Centers, antialias: bool
) -> Any:
    """Return resized images; all methods but `"nearest"` return float32."""
    if method not in METHODS:
        raise ValueError(f"method: expected one of {METHODS}, found {method!r}")
    pairs = zip((-3, -2), computed.shape(images)[-3:-1], size, strict=True)
    for axis, length, wanted in pairs:
        items = wanted * (1 if method == "nearest" else length)
        budget.spend(1 if has_dims(items) else items, 8 * COPIES)
        if method == "nearest":
            images = ops.take(images, centers.nearest(length, wanted), axis=axis)
            continue
        weights = resampling.matrix(length, wanted, method, centers, antialias)
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
        lengths = kinds.integers(computed.shape(images)[-3:-1])
        height, width = kinds.integers(size)
        scale = min(height / lengths[0], width / lengths[1])
        size = [round(length * scale) for length in lengths]
    return _resized(images, size, method.lower(), Centers(), antialias)


def _of_graph(method: str) -> Callable[..., Any]:
    """Return a resizing function of TensorFlow 1."""

    def function(
        images: Value,
        size: Lengths,
        align_corners: bool = False,
        half_pixel_centers: bool = False,
    ) -> Value:
        centers = Centers(align_corners, half_pixel_centers)
        return _resized(images, size, method, centers, False)

    return function


BILINEAR, NEAREST = _of_graph("bilinear"), _of_graph("nearest")
op("compat.v1.image.resize_bilinear", ResizeBilinear=RESIZE)(BILINEAR)
op("compat.v1.image.resize_nearest_neighbor", ResizeNearestNeighbor=RESIZE)(NEAREST)
op(ResizeArea=Raw("images size"))(_of_graph("area"))
op(ResizeBicubic=RESIZE)(_of_graph("bicubic"))


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
    return _of_graph(name)(images, size, align_corners)
