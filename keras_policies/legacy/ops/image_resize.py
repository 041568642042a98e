"""`tf.image`: resizing, as a product with a matrix of weights for rows and columns.

The backends of Keras agree with TensorFlow on bilinear resizing alone.
"""

from collections.abc import Callable, Sequence

from keras_policies.late import ops
from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import kinds, resampling
from keras_policies.legacy.ops.kinds import Tensor
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.ops.resampling import METHODS, Centers

# A matrix of weights and its intermediate results, in arrays of its size.
COPIES = 4
METHODS_OF_1 = "bilinear", "nearest", "bicubic", "area"
RESIZE = Raw("images size", "align_corners half_pixel_centers")


def image_size(images: Tensor) -> tuple[int, ...]:
    """Return rows and columns, which have to be known."""
    return kinds.integers(images.shape[-3:-1])


def _resized(
    images: Tensor, size: Sequence[int], method: str, centers: Centers, antialias: bool
) -> Tensor:
    """Return resized images; all methods but `"nearest"` return float32."""
    if method not in METHODS:
        raise ValueError(f"method: expected one of {METHODS}, found {method!r}")
    for axis, length, wanted in zip((-3, -2), image_size(images), size, strict=True):
        budget.spend(wanted * (1 if method == "nearest" else length), 8 * COPIES)
        if method == "nearest":
            images = ops.take(images, centers.nearest(length, wanted), axis=axis)
            continue
        weights = resampling.matrix(length, wanted, method, centers, antialias)
        last = ops.moveaxis(ops.cast(images, "float32"), axis, -1)
        images = ops.moveaxis(ops.matmul(last, weights.T), -1, axis)
    return images


@op("image.resize")
def resize(
    images: Tensor,
    size: tuple[int, ...],
    method: str = "bilinear",
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
) -> Tensor:
    """Resize, with the centers of pixels half a pixel from their edges."""
    if preserve_aspect_ratio:
        lengths = image_size(images)
        scale = min(size[0] / lengths[0], size[1] / lengths[1])
        size = tuple(round(length * scale) for length in lengths)
    return _resized(images, size, method.lower(), Centers(), antialias)


def _of_graph(method: str) -> Callable[..., Tensor]:
    """Return a resizing function of TensorFlow 1."""

    def function(
        images: Tensor,
        size: tuple[int, ...],
        align_corners: bool = False,
        half_pixel_centers: bool = False,
    ) -> Tensor:
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
    images: Tensor,
    size: tuple[int, ...],
    method: object = 0,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
) -> Tensor:
    """Resize by one of `METHODS_OF_1`, or its number."""
    if preserve_aspect_ratio or method not in (*METHODS_OF_1, *range(4)):
        raise ValueError(f"method: {method} with preserve_aspect_ratio")
    name = METHODS_OF_1[method] if isinstance(method, int) else str(method)
    return _of_graph(name)(images, size, align_corners)
