"""`tf.image`: non-maximum suppression, with a known number of boxes.

Each round takes the best remaining box, and drops those that overlap it. Source:
tensorflow/core/kernels/image/non_max_suppression_op.cc.
"""

from typing import Any

import numpy as np

from keras_policies.legacy.guards import limits
from keras_policies.legacy.ops import converters
from keras_policies.legacy.ops.converters import Value
from keras_policies.legacy.ops.math_reductions import top_k
from keras_policies.legacy.ops.registry import functions, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.evaluator import ops

LOWEST = np.float32(np.finfo("float32").min)  # the score of a dropped box


def _edges(boxes: Any) -> tuple[Any, ...]:
    """Return top, left, bottom and right of boxes, given by any two corners."""
    top, left, bottom, right = (computed.index(boxes, [..., side]) for side in range(4))
    low = ops.minimum(top, bottom), ops.minimum(left, right)
    return *low, ops.maximum(top, bottom), ops.maximum(left, right)


def _area(top: Any, left: Any, bottom: Any, right: Any) -> Any:
    height, width = ops.subtract(bottom, top), ops.subtract(right, left)
    return ops.multiply(ops.maximum(height, 0.0), ops.maximum(width, 0.0))


def _common(one: tuple[Any, ...], other: tuple[Any, ...]) -> Any:
    """Return the area of the intersection of boxes."""
    first = (ops.maximum(a, b) for a, b in zip(one[:2], other[:2], strict=True))
    last = (ops.minimum(a, b) for a, b in zip(one[2:], other[2:], strict=True))
    return _area(*first, *last)


def _chosen(
    boxes: Any, scores: Any, count: int, overlap: Value, threshold: Value
) -> tuple[Any, Any, Any]:
    """Return the positions, scores and boxes of the chosen ones.

    The score is `LOWEST` where no box was left.
    """
    if count > limits.BOXES:
        raise ValueError(f"{count} boxes, expected at most {limits.BOXES}")
    edges = _edges(boxes)
    areas = _area(*edges)
    numbers = computed.arange(0, computed.shape(scores)[-1])
    remaining = ops.where(ops.greater(scores, threshold), scores, LOWEST)
    positions, values, rows = [], [], []
    for _ in range(count):
        best = ops.cast(ops.argmax(remaining, axis=-1), "int32")
        is_best = ops.equal(numbers, ops.expand_dims(best, -1))
        best_edges = tuple(
            ops.sum(ops.where(is_best, edge, 0.0), axis=-1, keepdims=True)
            for edge in edges
        )
        common = _common(edges, best_edges)
        union = ops.subtract(ops.add(areas, _area(*best_edges)), common)
        is_covered = ops.greater(common, ops.multiply(union, overlap))
        is_out = ops.logical_or(is_best, is_covered)
        positions.append(best)
        values.append(ops.max(remaining, axis=-1))
        picked = ops.where(ops.expand_dims(is_best, -1), boxes, 0.0)
        rows.append(ops.sum(picked, axis=-2))
        remaining = ops.where(is_out, LOWEST, remaining)
    return (
        ops.stack(positions, axis=-1),
        ops.stack(values, axis=-1),
        ops.stack(rows, axis=-2),
    )


@op(
    "NonMaxSuppressionV5(boxes scores max_output_size iou_threshold score_threshold "
    "soft_nms_sigma; pad_to_max_output_size; selected_indices selected_scores "
    "valid_outputs) NonMaxSuppressionV3(boxes scores max_output_size iou_threshold "
    "score_threshold)"
)
def non_max_suppression(
    boxes: Value,
    scores: Value,
    max_output_size: int,
    iou_threshold: Value,
    score_threshold: Value,
    soft_nms_sigma: float = 0.0,
    pad_to_max_output_size: bool = False,
) -> tuple[Value, ...]:
    """Return the positions and scores of boxes, padded with 0, and their number."""
    if not pad_to_max_output_size:
        raise ValueError("the number of boxes depends on the data: pad them")
    if soft_nms_sigma:
        raise ValueError(f"soft_nms_sigma: expected 0, found {soft_nms_sigma}")
    thresholds = iou_threshold, score_threshold
    positions, values, _ = _chosen(boxes, scores, max_output_size, *thresholds)
    is_box = ops.greater(values, LOWEST)
    return (
        ops.where(is_box, positions, 0),
        ops.where(is_box, values, 0.0),
        ops.sum(ops.cast(is_box, "int32"), axis=-1),
    )


functions(
    "boxes scores max_output_size:int iou_threshold score_threshold "
    "pad_to_max_output_size:bool=False",
    (
        lambda *args, **settings: non_max_suppression(*args, **settings)[::2],
        "NonMaxSuppressionV4(boxes scores max_output_size iou_threshold "
        "score_threshold; pad_to_max_output_size; selected_indices valid_outputs)",
    ),
)


@op(
    "image.combined_non_max_suppression CombinedNonMaxSuppression(boxes scores "
    "max_output_size_per_class max_total_size iou_threshold score_threshold; "
    "pad_per_class clip_boxes; nmsed_boxes nmsed_scores nmsed_classes "
    "valid_detections)"
)
def combined_non_max_suppression(
    boxes: Value,
    scores: Value,
    max_output_size_per_class: int,
    max_total_size: int,
    iou_threshold: Value = 0.5,
    score_threshold: Value = float("-inf"),
    pad_per_class: bool = False,
    clip_boxes: bool = True,
) -> tuple[Value, ...]:
    """Return boxes, scores and classes of the best of all classes, and their number."""
    classes = converters.integer(computed.shape(scores)[-1])
    count = max_output_size_per_class
    boxes, by_class = ops.swapaxes(boxes, 1, 2), ops.swapaxes(scores, 1, 2)
    thresholds = iou_threshold, score_threshold
    _, values, rows = _chosen(boxes, by_class, count, *thresholds)
    size = min(max_total_size, classes * count)
    values = computed.reshape(values, [-1, classes * count])
    rows = computed.reshape(rows, [-1, classes * count, 4])
    values, at = top_k(values, size)
    rows = ops.take_along_axis(rows, ops.expand_dims(at, -1), axis=1)
    is_box = ops.greater(values, LOWEST)
    class_of = ops.cast(ops.floor_divide(at, count), "float32")
    rows = ops.clip(rows, 0.0, 1.0) if clip_boxes else rows
    missing = 0 if pad_per_class else max_total_size - size
    outputs = (
        ops.where(ops.expand_dims(is_box, -1), rows, 0.0),
        ops.where(is_box, values, 0.0),
        ops.where(is_box, class_of, 0.0),
    )
    padded = (
        ops.pad(each, [[0, 0], [0, missing], [0, 0]][: computed.rank(each)])
        for each in outputs
    )
    return *padded, ops.sum(ops.cast(is_box, "int32"), axis=-1)
