"""`tf.math`: sums, products and extremes of segments, counts, and buckets."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from keras_policies.legacy.ops.kinds import DType, Length, Value
from keras_policies.legacy.ops.registry import Op, Raw, enter, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.dims import Dim
from keras_policies.legacy.values.evaluator import (
    dtype_of,
    is_integer_dtype,
    ops,
)


def _lines(data: Any, segment_ids: Any) -> tuple[Any, Any]:
    """Return items and segments as one axis: the segments may have several."""
    axes = computed.rank(segment_ids)
    if axes < 2:
        return data, segment_ids
    rest = computed.shape(data)[axes:]
    return computed.reshape(data, [-1, *rest]), computed.reshape(segment_ids, [-1])


def _membership(segment_ids: Any, num_segments: Length) -> Any:
    """Return which items are in which segment: `(segments, items)`."""
    numbers = ops.expand_dims(computed.arange(0, num_segments), -1)
    return ops.equal(numbers, ops.expand_dims(ops.cast(segment_ids, "int32"), 0))


def _apart(data: Any, segment_ids: Any, num_segments: Length, neutral: Any) -> Any:
    """Return `(segments, items, ...)`, with a number where an item is elsewhere."""
    is_in = _membership(segment_ids, num_segments)
    for _ in range(computed.rank(data) - 1):
        is_in = ops.expand_dims(is_in, -1)
    other = np.asarray(neutral, dtype_of(data))
    return ops.where(is_in, ops.expand_dims(data, 0), other)


def unsorted_segment_sum(
    data: Value, segment_ids: Value, num_segments: Length
) -> Value:
    """Add up the items of each of `num_segments` segments."""
    data, segment_ids = _lines(data, segment_ids)
    if not isinstance(num_segments, Dim):
        return ops.segment_sum(data, segment_ids, num_segments=num_segments)
    is_in = _membership(segment_ids, num_segments)
    rest = computed.shape(data)[1:]
    rows = computed.reshape(data, [computed.shape(data)[0], -1] if rest else [-1, 1])
    found = ops.matmul(ops.cast(is_in, dtype_of(data)), rows)
    return computed.reshape(found, [num_segments, *rest])


def unsorted_segment_prod(
    data: Value, segment_ids: Value, num_segments: Length
) -> Value:
    """Multiply the items of each segment."""
    apart = _apart(*_lines(data, segment_ids), num_segments, 1)
    return ops.prod(apart, axis=1)


def unsorted_segment_max(
    data: Value, segment_ids: Value, num_segments: Length
) -> Value:
    """Return the largest of each segment, of an empty one the lowest number."""
    data, segment_ids = _lines(data, segment_ids)
    dtype = dtype_of(data)
    lowest = (ml_dtypes.finfo if "float" in dtype else np.iinfo)(dtype).min
    if isinstance(num_segments, Dim):
        return ops.max(_apart(data, segment_ids, num_segments, lowest), axis=1)
    found = ops.segment_max(data, segment_ids, num_segments=num_segments)
    return ops.maximum(found, np.asarray(lowest, dtype))


def unsorted_segment_min(
    data: Value, segment_ids: Value, num_segments: Length
) -> Value:
    """Return the smallest of each segment, of an empty one the highest number."""
    # -1 - x of the lowest integer is the highest; its negative would not fit.
    turn = -1 if is_integer_dtype(dtype_of(data)) else 0
    turned = ops.subtract(turn, data)
    return ops.subtract(turn, unsorted_segment_max(turned, segment_ids, num_segments))


UNSORTED: dict[str, Callable[..., Any]] = {
    "max": unsorted_segment_max,
    "min": unsorted_segment_min,
    "prod": unsorted_segment_prod,
    "sum": unsorted_segment_sum,
}


def _sorted(name: str) -> Callable[..., Any]:
    """Return the function of segments that are numbered in order, which are known."""

    def function(data: Value, segment_ids: tuple[int, ...]) -> Value:
        ids = np.asarray(segment_ids, "int32")
        counts = np.bincount(ids)
        counts = counts.reshape(-1, *[1] * (computed.rank(data) - 1))
        found = UNSORTED.get(name, unsorted_segment_sum)(data, ids, len(counts))
        if name == "mean":
            return ops.divide(found, np.maximum(counts, 1).astype(dtype_of(data)))
        if name in ("max", "min") and not counts.all():  # an empty segment has 0
            return ops.where(counts > 0, found, np.asarray(0, dtype_of(data)))
        return found

    return function


for _name, _function in UNSORTED.items():
    _names = [f"{v1}math.unsorted_segment_{_name}" for v1 in ("", "compat.v1.")]
    _raw = Raw("data segment_ids num_segments")
    enter(
        Op(_names[0], _function, {}), _names, {f"UnsortedSegment{_name.title()}": _raw}
    )
for _name in (*UNSORTED, "mean"):
    _names = [f"{v1}math.segment_{_name}" for v1 in ("", "compat.v1.")]
    _raw = Raw("data segment_ids")
    enter(Op(_names[0], _sorted(_name), {}), _names, {f"Segment{_name.title()}": _raw})


@op(
    DenseBincount=Raw("input size weights", "binary_output dtype=T"),
)
def dense_bincount(
    input: Value,
    size: Length,
    weights: Value,
    binary_output: bool = False,
    dtype: DType = "float32",
) -> Value:
    """Count the numbers below `size` in each row, or add up their weights."""
    numbers = computed.arange(0, size, dtype=dtype_of(input))
    found = ops.equal(ops.expand_dims(input, -1), numbers)
    if binary_output:
        return ops.cast(ops.any(found, axis=-2), dtype)
    found = ops.cast(found, dtype)
    if 0 not in computed.shape(weights):
        found = ops.multiply(found, ops.expand_dims(weights, -1))
    return ops.sum(found, axis=-2)


@op(Bincount=Raw("arr size weights", "dtype=T"))
def bincount_node(
    arr: Value, size: Length, weights: Value, dtype: DType = "float32"
) -> Value:
    """Do the same for all rows together."""
    if 0 not in computed.shape(weights):
        weights = computed.reshape(weights, [-1])
    return dense_bincount(computed.reshape(arr, [-1]), size, weights, False, dtype)


@op("math.bincount", v1=True)
def bincount(
    arr: Value,
    weights: Value | None = None,
    minlength: int | None = None,
    maxlength: int | None = None,
    dtype: DType = "int32",
    name: object = None,
    axis: int | None = None,
    binary_output: bool = False,
) -> Value:
    """Count numbers; how many there can be has to be known."""
    if minlength is None or minlength != maxlength:
        raise ValueError(
            "the largest number decides on the size: pass minlength and "
            "maxlength that are equal"
        )
    if weights is None:
        weights = np.zeros(0, dtype)
    if axis is None:
        arr = computed.reshape(arr, [-1])
    given = dtype_of(weights) if 0 not in computed.shape(weights) else dtype
    return dense_bincount(arr, maxlength, weights, binary_output, given)


@op(Bucketize=Raw("input", "boundaries"))
def bucketize(input: Value, boundaries: Value) -> Value:
    """Return how many of the boundaries each number has reached."""
    number = ops.expand_dims(ops.cast(input, "float32"), -1)
    return ops.sum(ops.cast(ops.greater_equal(number, boundaries), "int32"), axis=-1)


@op("math.invert_permutation", v1=True, InvertPermutation=Raw("x"))
def invert_permutation(x: Value) -> Value:
    """Return the position of each number in a permutation."""
    return ops.cast(ops.argsort(x), dtype_of(x))
