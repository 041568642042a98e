"""Functions directly under `tf` that make constants, or tensors of a given shape."""

import math
from collections.abc import Callable

import numpy as np
from keras import ops

from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import kinds, sizes
from keras_policies.legacy.ops.elementwise import named
from keras_policies.legacy.ops.kinds import DType, Operand, Sizes, Tensor
from keras_policies.legacy.ops.registry import Raw, op


@op("fill", Fill=Raw("dims value"))
def fill(dims: Sizes, value: Operand) -> Operand:
    """Return an array full of a number, or a tensor if a size is unknown."""
    number = kinds.array(value)
    if sizes.has_unknown(dims):
        return sizes.filled(dims, number.item(), number.dtype.name)
    lengths = sizes.known(dims, 1)
    budget.spend(math.prod(lengths), number.itemsize)
    return np.full(lengths, number)


def _full(number: int) -> Callable[..., Operand]:
    def function(shape: Sizes, dtype: DType = "float32") -> Operand:
        return fill(shape, np.asarray(number, dtype))

    return function


op("zeros")(_full(0))
op("ones")(_full(1))


def _like(number: int, name: str) -> Callable[..., Operand]:
    def function(input: Operand, dtype: DType | None = None) -> Operand:
        if kinds.is_tensor(input):
            return named(name)(input, dtype=dtype)
        return [number] * len(input)

    return function


op("zeros_like", v1=True, ZerosLike=Raw("input"))(_like(0, "zeros_like"))
op("ones_like", v1=True, OnesLike=Raw("input"))(_like(1, "ones_like"))


@op("eye")
def eye(
    num_rows: int,
    num_columns: int | None = None,
    batch_shape: object = None,
    dtype: DType = "float32",
) -> Operand:
    """Return an identity matrix."""
    if batch_shape is not None:
        raise ValueError("batch_shape: expected None")
    budget.spend(num_rows * (num_columns or num_rows), 8)
    return np.eye(num_rows, num_columns, dtype=dtype)


@op("linspace", LinSpace=Raw("start stop num"))
def linspace(start: float, stop: float, num: int) -> Operand:
    """Return evenly spaced numbers."""
    budget.spend(num, 8)
    return np.linspace(start, stop, num, dtype="float32")


@op("range", Range=Raw("start limit delta"))
def arange(
    start: Operand,
    limit: Operand | None = None,
    delta: float = 1,
    dtype: DType | None = None,
) -> Operand:
    """Return numbers from `start` to `limit`; a limit that is unknown is counted to."""
    start, limit = (0, start) if limit is None else (start, limit)
    if isinstance(limit, sizes.Size):
        if (start, delta) != (0, 1):
            raise ValueError("limit: not known, which needs start 0 and delta 1")
        counted = ops.cumsum(limit.ones(dtype or "int32"), axis=0)
        return ops.subtract(counted, 1)
    first, last = kinds.number(start), kinds.number(limit)
    budget.spend(abs(last - first) / abs(delta), 8)
    return np.arange(first, last, delta, dtype=dtype)


@op("sequence_mask")
def sequence_mask(lengths: Tensor, maxlen: int, dtype: DType = "bool") -> Tensor:
    """Return which of `maxlen` positions are within each length."""
    numbers = np.arange(maxlen, dtype=lengths.dtype)
    return ops.cast(ops.less(numbers, ops.expand_dims(lengths, -1)), dtype)


@op("one_hot", OneHot=Raw("indices depth on_value off_value", "axis dtype=T"))
def one_hot(
    indices: Tensor,
    depth: int,
    on_value: float = 1,
    off_value: float = 0,
    axis: int = -1,
    dtype: DType = "float32",
) -> Tensor:
    """Return `on_value` at each index and `off_value` elsewhere."""
    hot = ops.one_hot(indices, depth, axis=axis, dtype=dtype)
    if (on_value, off_value) == (1, 0):
        return hot
    return ops.add(ops.multiply(hot, on_value - off_value), off_value)
