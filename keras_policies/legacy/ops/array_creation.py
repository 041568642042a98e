"""Functions directly under `tf` that make constants, or tensors of a given shape."""

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import kinds
from keras_policies.legacy.ops.kinds import DType, Length, Lengths, Value
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.dims import Dim, Ratio
from keras_policies.legacy.values.evaluator import dtype_of, has_dims, ops


@op("fill", Fill=Raw("dims value"))
def fill(dims: Lengths, value: Value) -> Value:
    """Return a value of a shape, full of a number."""
    return computed.full(dims, value, dtype_of(value))


def _full(number: int) -> Callable[..., Any]:
    def function(shape: Lengths, dtype: DType = "float32") -> Value:
        return computed.full(shape, number, dtype)

    return function


op("zeros")(_full(0))
op("ones")(_full(1))


@op("zeros_like", v1=True, ZerosLike=Raw("input"))
def zeros_like(input: Value, dtype: DType | None = None) -> Value:
    """Return zeros in the shape of a value."""
    return ops.zeros_like(input, dtype=dtype)


@op("ones_like", v1=True, OnesLike=Raw("input"))
def ones_like(input: Value, dtype: DType | None = None) -> Value:
    """Return ones in the shape of a value."""
    return ops.ones_like(input, dtype=dtype)


@op("eye")
def eye(
    num_rows: Length,
    num_columns: Length | None = None,
    batch_shape: object = None,
    dtype: DType = "float32",
) -> Value:
    """Return an identity matrix."""
    if batch_shape is not None:
        raise ValueError("batch_shape: expected None")
    columns = num_rows if num_columns is None else num_columns
    budget.spend(1 if has_dims(num_rows * columns) else num_rows * columns, 8)
    rows = ops.expand_dims(computed.arange(0, num_rows), -1)
    return ops.cast(ops.equal(rows, computed.arange(0, columns)), dtype)


@op("linspace", LinSpace=Raw("start stop num"))
def linspace(start: Value, stop: Value, num: Length) -> Value:
    """Return evenly spaced numbers, along a new first axis."""
    dtype = dtype_of(start) if "float" in dtype_of(start) else "float32"
    count = computed.arange(0, num)
    for _ in range(computed.rank(start)):
        count = ops.expand_dims(count, -1)
    share = ops.divide(ops.cast(count, dtype), ops.cast(ops.maximum(num - 1, 1), dtype))
    return ops.add(start, ops.multiply(ops.subtract(stop, start), share))


@op("range", Range=Raw("start limit delta"))
def arange(
    start: Value,
    limit: Value | None = None,
    delta: Value = 1,
    dtype: DType | None = None,
) -> Value:
    """Return numbers from `start` to `limit`."""
    start, limit = (np.zeros_like(start), start) if limit is None else (start, limit)
    bounds = start, limit, np.asarray(delta)
    whole = dtype or ("float32" if any(map(_is_float, bounds)) else "int32")
    first, last, step = map(_bound, bounds)
    if any(map(has_dims, (first, last))):
        first, last, step = map(kinds.length, map(_whole, (first, last, step)))
    return computed.arange(first, last, step, whole)


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _bound(value: Any) -> Any:
    """Return a bound of a range: a number or a dimension."""
    if isinstance(value, Ratio) and value.divisor == 1:
        return value.dividend
    return value if isinstance(value, Dim) else kinds.number(value)


def _is_float(value: Any) -> bool:
    return "float" in dtype_of(value)


@op("sequence_mask")
def sequence_mask(lengths: Value, maxlen: Length, dtype: DType = "bool") -> Value:
    """Return which of `maxlen` positions are within each length."""
    numbers = computed.arange(0, maxlen, dtype=dtype_of(lengths))
    return ops.cast(ops.less(numbers, ops.expand_dims(lengths, -1)), dtype)


@op("one_hot", OneHot=Raw("indices depth on_value off_value", "axis dtype=T"))
def one_hot(
    indices: Value,
    depth: Length,
    on_value: Value = 1,
    off_value: Value = 0,
    axis: int = -1,
    dtype: DType = "float32",
) -> Value:
    """Return `on_value` at each index and `off_value` elsewhere.

    An index that is out of range, such as -1, has no `on_value`.
    """
    at = axis % (computed.rank(indices) + 1)
    line = [1] * (computed.rank(indices) + 1)
    line[at] = -1
    numbers = computed.reshape(computed.arange(0, depth, dtype=dtype_of(indices)), line)
    is_hot = ops.equal(ops.expand_dims(indices, at), numbers)
    return ops.where(is_hot, ops.cast(on_value, dtype), ops.cast(off_value, dtype))
