"""`tf.math`: reductions along axes and of segments, counts, and positions."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from keras_policies._common.lazy_keras import keras
from keras_policies.legacy.ops.converters import Axes, DType, Length, Value
from keras_policies.legacy.ops.registry import Row, functions, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.dims import Dim, DimLike
from keras_policies.legacy.values.evaluator import (
    dtype_of,
    evaluate,
    is_integer_dtype,
    is_tensor,
    ops,
)

ALONG_AXES = "(input_tensor axis; keepdims=keep_dims)"


def _reduced(name: str, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    if axis == ():  # as in TensorFlow, nothing changes
        return x
    is_one = name == "logsumexp" and isinstance(axis, int)
    along = [axis] if is_one else axis  # Keras 3.8 does not accept an int there
    if name == "mean" and is_integer_dtype(dtype_of(x)):  # rounded towards zero
        wide = x if dtype_of(x) in ("int32", "int64") else ops.cast(x, "int32")
        total, count = (
            ops.sum(each, axis=along, keepdims=keepdims)
            for each in (wide, ops.ones_like(wide))
        )
        return ops.cast(computed.truncated_quotient(total, count), dtype_of(x))
    return evaluate(name, x, axis=along, keepdims=keepdims)


# Reductions that graphs also have; the others only have names in tf.math.
IN_GRAPHS = "all", "any", "max", "mean", "min", "prod", "sum"
for _name in (*IN_GRAPHS, "std", "var", "logsumexp"):
    _reduce = functools.partial(_reduced, _name)
    _other = {"var": "variance"}.get(_name, _name)
    _node = f"{_name.capitalize()}{ALONG_AXES}" if _name in IN_GRAPHS else ""
    functions(
        "input_tensor axis:Axes=None keepdims:bool=False",
        (_reduce, f"math.reduce_{_other} {_node}"),
        renamed={"keep_dims": "keepdims", "reduction_indices": "axis"},
    )


@op("math.reduce_euclidean_norm EuclideanNorm(input_tensor axis; keepdims=keep_dims)")
def euclidean_norm(
    input_tensor: Value, axis: Axes | None = None, keepdims: bool = False
) -> Value:
    """Return the square root of the sum of squares."""
    return ops.sqrt(ops.sum(ops.square(input_tensor), axis=axis, keepdims=keepdims))


functions(  # in int32, the dtype in which every backend can count
    "input axis:Axes=None keepdims:bool=False dtype:DType='int64'",
    "math.count_nonzero: sum(cast(input != 0, 'int32'), axis=axis, keepdims=keepdims)",
)
functions("value", "math.zero_fraction: mean(cast(value == 0, 'float32'))")


functions(
    "x axis:Axes=None epsilon:float=1e-12",
    "math.l2_normalize nn.l2_normalize linalg.l2_normalize: "
    "x * rsqrt(maximum(sum(square(x), axis=axis, keepdims=True), epsilon))",
    renamed={"dim": "axis"},
)


def _cumulated(
    name: str, x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False
) -> Any:
    x = ops.flip(x, axis) if reverse else x
    if exclusive:
        x = _moved_by_one(x, axis, 0 if name == "cumsum" else 1)
    total = evaluate(name, x, axis=axis)
    return ops.flip(total, axis) if reverse else total


def _moved_by_one(x: Any, axis: int, first: int) -> Any:
    """Shift the items along an axis by one position, and put a number first."""
    axis %= computed.rank(x)
    before = [slice(None)] * axis
    number = np.asarray(first, dtype_of(x))
    start = ops.full_like(computed.index(x, [*before, slice(0, 1)]), number)
    rest = computed.index(x, [*before, slice(0, -1)])
    return ops.concatenate([start, rest], axis=axis)


def _extreme(name: str, x: Any, axis: int = 0, output_type: str = "int64") -> Any:
    at = evaluate(name, x, axis=axis)
    # int64, the default, means the backend's own integers.
    return at if output_type == "int64" else ops.cast(at, output_type)


for _name in ("cumsum", "cumprod"):
    _row: Row = (
        functools.partial(_cumulated, _name),
        f"math.{_name} {_name.title()}(x axis; exclusive reverse)",
    )
    functions("x axis:int=0 exclusive:bool=False reverse:bool=False", _row)
for _name in ("ArgMax", "ArgMin"):
    _row = (
        functools.partial(_extreme, _name.lower()),
        f"math.{_name.lower()} {_name}(input axis; output_type)",
    )
    functions("input axis:int=0 output_type:DType='int64'", _row)
functions("targets predictions k:int", "math.in_top_k: in_top_k")


@op(
    "compat.v1.math.in_top_k InTopKV2(predictions targets k) InTopK(predictions "
    "targets; k)"
)
def in_top_k_v1(predictions: Value, targets: Value, k: int) -> Value:
    """Call `in_top_k`: TensorFlow 2 swapped the first two arguments."""
    return ops.in_top_k(targets, predictions, k)


def descending(x: Any, axis: int = -1) -> Any:
    """Return the positions that sort in descending order, equal ones stably."""
    is_integer = is_integer_dtype(dtype_of(x))  # unsigned ones have no negative
    turned = ops.bitwise_invert(x) if is_integer else ops.negative(x)
    return ops.cast(ops.argsort(turned, axis=axis), "int32")


class TopK(NamedTuple):
    """The result of `top_k`, whose fields the code of models reads."""

    values: Any
    indices: Any


@op("math.top_k nn.top_k TopKV2(input k; sorted; values indices)")
def top_k(
    input: Value, k: int = 1, sorted: bool = True, index_type: DType = "int32"
) -> TopK:
    """Return the largest values of the last axis, and their positions.

    The first of equal values are taken. `ops.top_k` of torch takes any of them, so the
    whole axis is sorted there, which takes about a hundred times as long.
    """
    if is_tensor(input) and keras.backend.backend() != "torch":
        return TopK(*ops.top_k(input, k, sorted=sorted))
    at = computed.index(descending(input), [..., slice(0, k)])
    return TopK(ops.take_along_axis(input, at, axis=-1), at)


def _lines(data: Any, segment_ids: Any) -> tuple[Any, Any]:
    """Merge the axes of the segments, and those axes of the data."""
    axes = computed.rank(segment_ids)
    if axes > 1:
        data = computed.reshape(data, [-1, *computed.shape(data)[axes:]])
        segment_ids = computed.reshape(segment_ids, [-1])
    if is_tensor(segment_ids) and not is_tensor(data):  # Keras only checks `data`
        every = ops.subtract(ops.cumsum(ops.ones_like(segment_ids)), 1)
        data = ops.take(data, every, axis=0)
    return data, segment_ids


def _membership(segment_ids: Any, num_segments: DimLike) -> Any:
    """Return which items are in which segment, `(segments, items)`."""
    numbers = ops.expand_dims(computed.arange(0, num_segments), -1)
    return ops.equal(numbers, ops.expand_dims(ops.cast(segment_ids, "int32"), 0))


def _apart(data: Any, segment_ids: Any, num_segments: DimLike, neutral: Any) -> Any:
    """Return `(segments, items, ...)`, with a number where an item is elsewhere."""
    is_in = _membership(segment_ids, num_segments)
    for _ in range(computed.rank(data) - 1):
        is_in = ops.expand_dims(is_in, -1)
    other = np.asarray(neutral, dtype_of(data))
    return ops.where(is_in, ops.expand_dims(data, 0), other)


def _segment_sum(data: Any, segment_ids: Any, num_segments: DimLike) -> Any:
    """Add up the items of each of `num_segments` segments."""
    data, segment_ids = _lines(data, segment_ids)
    if not isinstance(num_segments, Dim):
        return ops.segment_sum(data, segment_ids, num_segments=num_segments)
    is_in = _membership(segment_ids, num_segments)
    rest = computed.shape(data)[1:]
    matrix = computed.reshape(data, [computed.shape(data)[0], -1] if rest else [-1, 1])
    sums = ops.matmul(ops.cast(is_in, dtype_of(data)), matrix)
    return computed.reshape(sums, [num_segments, *rest])


def _segment_max(data: Any, segment_ids: Any, num_segments: DimLike) -> Any:
    """Return the maximum of each segment; an empty one has the dtype's lowest value."""
    data, segment_ids = _lines(data, segment_ids)
    dtype = dtype_of(data)
    lowest = (ml_dtypes.finfo if "float" in dtype else np.iinfo)(dtype).min
    is_other = is_integer_dtype(dtype) and dtype != "int32"  # torch returns 0 for it
    if isinstance(num_segments, Dim) or is_other:
        return ops.max(_apart(data, segment_ids, num_segments, lowest), axis=1)
    largest = ops.segment_max(data, segment_ids, num_segments=num_segments)
    return ops.maximum(largest, np.asarray(lowest, dtype))


def _segment_min(data: Any, segment_ids: Any, num_segments: DimLike) -> Any:
    """Return the minimum of each segment; an empty one has the highest value."""
    # -1 - x of the lowest integer is the highest; its negative would not fit.
    turn = -1 if is_integer_dtype(dtype_of(data)) else 0
    turned = _segment_max(ops.subtract(turn, data), segment_ids, num_segments)
    return ops.subtract(turn, turned)


# Reduction -> its function of segments in any order.
SEGMENTS: dict[str, Callable[..., Any]] = {
    "max": _segment_max,
    "min": _segment_min,
    "prod": lambda data, ids, n: ops.prod(_apart(*_lines(data, ids), n, 1), axis=1),
    "sum": _segment_sum,
}


def _sorted(name: str, data: Any, segment_ids: tuple[int, ...]) -> Any:
    """Reduce known segments that are numbered in order."""
    ids = np.asarray(segment_ids, "int32")
    counts = np.bincount(ids)
    counts = counts.reshape(-1, *[1] * (computed.rank(data) - 1))
    reduced = SEGMENTS["sum" if name == "mean" else name](data, ids, len(counts))
    if name == "mean":
        return ops.divide(reduced, np.maximum(counts, 1).astype(dtype_of(data)))
    if name in ("max", "min") and not counts.all():  # an empty segment has 0
        return ops.where(counts > 0, reduced, np.asarray(0, dtype_of(data)))
    return reduced


for _name, _function in SEGMENTS.items():
    _row = _function, f"math.unsorted_segment_{_name} UnsortedSegment{_name.title()}"
    functions("data segment_ids num_segments:Length", _row, v1=True)
for _name in (*SEGMENTS, "mean"):
    _row = (
        functools.partial(_sorted, _name),
        f"math.segment_{_name} Segment{_name.title()}",
    )
    functions("data segment_ids:ints", _row, v1=True)


@op("DenseBincount(input size weights; binary_output dtype=T)")
def dense_bincount(
    input: Value,
    size: Length,
    weights: Value,
    binary_output: bool = False,
    dtype: DType = "float32",
) -> Value:
    """Count the numbers below `size` in each row, or add up their weights."""
    numbers = computed.arange(0, size, dtype=dtype_of(input))
    is_number = ops.equal(ops.expand_dims(input, -1), numbers)
    if binary_output:
        return ops.cast(ops.any(is_number, axis=-2), dtype)
    counts = ops.cast(is_number, dtype)
    if 0 not in computed.shape(weights):
        counts = ops.multiply(counts, ops.expand_dims(weights, -1))
    return ops.sum(counts, axis=-2)


@op("Bincount(arr size weights; dtype=T)")
def bincount_node(
    arr: Value, size: Length, weights: Value, dtype: DType = "float32"
) -> Value:
    """Call `dense_bincount` for all rows together."""
    if 0 not in computed.shape(weights):
        weights = computed.reshape(weights, [-1])
    return dense_bincount(computed.reshape(arr, [-1]), size, weights, dtype=dtype)


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
    """Count numbers; the size of the result must be known."""
    if minlength is None or minlength != maxlength:
        raise ValueError(
            "the largest number determines the size: pass minlength and maxlength "
            "that are equal"
        )
    if weights is None:
        weights = np.zeros(0, dtype)
    if axis is None:
        arr = computed.reshape(arr, [-1])
    dtype = dtype_of(weights) if 0 not in computed.shape(weights) else dtype
    return dense_bincount(arr, maxlength, weights, binary_output, dtype)


functions(
    "input boundaries",
    "Bucketize(input; boundaries): sum(cast("
    "expand_dims(cast(input, 'float32'), -1) >= boundaries, 'int32'), axis=-1)",
)


def _nth(input: Any, n: Any, reverse: bool = False) -> Any:
    """Return the n-th smallest of each row, or the n-th largest."""
    return computed.index(ops.sort(input, axis=-1), [..., -1 - n if reverse else n])


functions("input n:int reverse:bool=False", (_nth, "NthElement"))


@op("math.invert_permutation InvertPermutation", v1=True)
def invert_permutation(x: Value) -> Value:
    """Return the position of each number in a permutation."""
    return ops.cast(ops.argsort(x), dtype_of(x))
