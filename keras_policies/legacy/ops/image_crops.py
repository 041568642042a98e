"""`tf.image`: crops of images at boxes, resized.

Source: tensorflow/core/kernels/image/crop_and_resize_op.cc.
"""

from typing import Any

from keras_policies.legacy.ops.kinds import Value
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.dims import Dim, DimLike
from keras_policies.legacy.values.evaluator import ops

METHODS = "bilinear", "nearest"


def _weights(
    first: Any, last: Any, length: DimLike, count: int, method: str
) -> tuple[Any, Any]:
    """Return the weights of pixels for `count` positions, and which are inside.

    `first` and `last` say where a crop begins and ends, as shares of the axis. The
    shapes are `(boxes, count, length)` and `(boxes, count)`.
    """
    end = ops.cast(length - 1, "float32") if isinstance(length, Dim) else length - 1.0
    share = ops.cast(computed.arange(0, count), "float32")
    share = ops.divide(share, count - 1.0) if count > 1 else ops.add(share, 0.5)
    size = ops.subtract(last, first)
    at = ops.add(
        ops.expand_dims(first, -1), ops.multiply(ops.expand_dims(size, -1), share)
    )
    at = ops.multiply(at, end)
    is_inside = ops.logical_and(ops.greater_equal(at, 0.0), ops.less_equal(at, end))
    if method == "nearest":
        at = ops.floor(ops.add(at, 0.5))
    pixels = ops.cast(computed.arange(0, length), "float32")
    distance = ops.abs(ops.subtract(ops.expand_dims(at, -1), pixels))
    return ops.maximum(ops.subtract(1.0, distance), 0.0), is_inside


@op(
    "image.crop_and_resize",
    CropAndResize=Raw(
        "image boxes box_indices crop_size", "method extrapolation_value"
    ),
)
def crop_and_resize(
    image: Value,
    boxes: Value,
    box_indices: Value,
    crop_size: tuple[int, ...],
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Value:
    """Return the part of an image in each box, in one size."""
    if method not in METHODS:
        raise ValueError(f"method: expected one of {METHODS}, found {method!r}")
    edges = (computed.index(boxes, [slice(None), side]) for side in range(4))
    top, left, bottom, right = edges
    height, width = computed.shape(image)[1:3]
    rows, is_row = _weights(top, bottom, height, crop_size[0], method)
    columns, is_column = _weights(left, right, width, crop_size[1], method)
    images = ops.take(ops.cast(image, "float32"), box_indices, axis=0)
    found = ops.matmul(ops.expand_dims(columns, 1), images)
    found = ops.matmul(ops.expand_dims(rows, 1), ops.swapaxes(found, 1, 2))
    is_inside = ops.logical_and(
        ops.expand_dims(is_row, -1), ops.expand_dims(is_column, -2)
    )
    return ops.where(
        ops.expand_dims(is_inside, -1), ops.swapaxes(found, 1, 2), extrapolation_value
    )
