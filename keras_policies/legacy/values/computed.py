"""Shapes, slices and fills whose sizes may be known only when the model runs.

All use a line of ones whose length is a dimension (`dim_tensors.ones`): a fill adds
lines of zeros, a range counts along a line, a slice takes the positions of a range.
"""

import math
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np

from keras_policies._common.lazy_keras import keras
from keras_policies._common.lazy_keras import ops as keras_ops
from keras_policies._common.types import Tensor
from keras_policies.legacy.guards import budget
from keras_policies.legacy.values import dim_tensors, dims, evaluator
from keras_policies.legacy.values.dims import Dim, DimLike
from keras_policies.legacy.values.evaluator import dtype_of, has_dims, is_tensor, ops
from keras_policies.legacy.values.shapes import Shape, note_shape, shape_of

Item: TypeAlias = "int | Dim | slice | EllipsisType | Tensor | None"


def shape(value: Any) -> Shape:
    """Return the shape of any value, with a `Dim` for each unknown length."""
    return shape_of(value) if is_tensor(value) else tuple(np.shape(value))


def rank(value: Any) -> int:
    """Return the number of axes."""
    return len(value.shape) if is_tensor(value) else np.ndim(value)


def vector(lengths: Sequence[DimLike], dtype: str = "int32") -> Any:
    """Return dimensions as one array."""
    has_unknown = any(map(has_dims, lengths))
    return np.array([*lengths], dtype=object if has_unknown else dtype)


def full(lengths: Sequence[DimLike], number: Any, dtype: str) -> Any:
    """Return a value of a shape that is full of a number."""
    if is_tensor(number) or not any(map(has_dims, lengths)):
        return broadcast_to(ops.cast(evaluator.array(number), dtype), lengths)
    shape_of_ones = [1 if isinstance(n, Dim) else n for n in lengths]
    budget.spend(math.prod(shape_of_ones), np.dtype(dtype).itemsize)
    value = np.full(shape_of_ones, number, dtype)  # torch returns no bfloat16
    join = ops.logical_or if dtype == "bool" else ops.add
    for axis, length in enumerate(lengths):
        if isinstance(length, Dim):
            zeros = keras_ops.zeros_like(dim_tensors.ones(length, dtype))
            value = join(along(zeros, axis, len(lengths)), value)
    return value


def arange(start: Any, stop: Any, step: Any = 1, dtype: str = "int32") -> Any:
    """Return numbers from `start` to below `stop`, which may be dimensions."""
    if not any(map(has_dims, (start, stop, step))):
        if step == 0:
            raise ValueError("a range of step 0")
        count = (stop - start) / step
        budget.spend(0 if count < 0 else count, 8)
        return np.arange(start, stop, step, dtype=dtype)
    count = (stop - start + step - (1 if step > 0 else -1)) // step
    numbers = ops.subtract(keras_ops.cumsum(dim_tensors.ones(count, dtype), axis=0), 1)
    return ops.add(ops.multiply(numbers, step), start)


def filled_up(value: Any, axis: int, count: DimLike, n: int) -> Any:
    """Append `count` zeros, less than `n`, to an axis, up to a multiple of `n`."""
    lengths = [*shape(value)]
    lengths[axis] = lengths[axis] + count
    widths = [(0, n - 1 if i == axis else 0) for i in range(len(lengths))]
    padded = ops.pad(value, widths, "constant", constant_values=0)
    found = ops.take(padded, arange(0, lengths[axis]), axis=axis)
    return note_shape(found, tuple(lengths))


def multiple_after(length: DimLike, count: DimLike) -> int | None:
    """Return the `n` of which `length + count` is a multiple, or None.

    For example, `T` plus `-(-T // 4) * 4 - T` is a multiple of 4.
    """
    atoms = (atom for monomial in dims.terms_of(count) for atom in monomial)
    quotients = (a for a in atoms if isinstance(a, dims.Compound) and a.kind == "//")
    divisors = (quotient.operands[1] for quotient in quotients)
    for n in (n for n in divisors if isinstance(n, int)):
        if dims.quotient(length + n - 1, n) * n - length == count:
            return n
    return None


def along(line: Any, axis: int, axes: int) -> Any:
    """Reshape a vector to `axes` axes, all of length 1 but one."""
    return ops.reshape(line, [-1 if i == axis else 1 for i in range(axes)])


def broadcast_to(value: Any, lengths: Sequence[DimLike]) -> Any:
    """Broadcast to a shape."""
    if not any(map(has_dims, lengths)) and None not in getattr(value, "shape", ()):
        return ops.broadcast_to(value, tuple(lengths))
    old = (1,) * (len(lengths) - rank(value)) + shape(value)
    missing = [1 if n == m else n for n, m in zip(lengths, old, strict=True)]
    if missing == [1] * len(missing) and len(old) == rank(value):
        return value
    zeros = full(missing, 0, dtype_of(value))
    # The zeros come first: TensorFlow may take the second operand for a bias.
    return (ops.logical_or if dtype_of(value) == "bool" else ops.add)(zeros, value)


def reshape(value: Any, lengths: Sequence[DimLike]) -> Any:
    """Reshape; one of the lengths may be -1.

    If more lengths are unknown than Keras can infer, rows are taken by a grid of
    positions that has the shape.
    """
    if not is_tensor(value):
        array = np.reshape(value, [*map(_number, lengths)])
        return evaluator.simplified(array) if has_dims(value) else array
    old = shape(value)
    if -1 in lengths:
        others = math.prod(n for n in lengths if not _is_rest(n))
        lengths = [math.prod(old) // others if _is_rest(n) else n for n in lengths]
    if tuple(lengths) == old:
        return value
    unknown = [axis for axis, n in enumerate(lengths) if isinstance(n, Dim)]
    wanted = [-1 if isinstance(n, Dim) else n for n in lengths]
    if len(unknown) <= 1:
        return keras_ops.reshape(value, wanted)
    if len(unknown) == 2 and unknown[0] == 0 and lengths[0] == old[0]:
        return keras.layers.Reshape(wanted[1:], dtype=value.dtype)(value)
    last = unknown[-1] + 1
    rows = keras_ops.reshape(value, [-1, *wanted[last:]])
    return keras_ops.take(rows, _grid(lengths[:last]), axis=0)


def _is_rest(length: DimLike) -> bool:
    return not isinstance(length, Dim) and length == -1


def _number(length: DimLike) -> int:
    if isinstance(length, Dim):
        raise ValueError(f"a constant in a shape with the length {length}")
    return length


def _grid(lengths: Sequence[DimLike]) -> Tensor:
    """Return the positions 0, 1, ... in a tensor of this shape."""
    grid: Any = 0
    for axis, length in enumerate(lengths):
        step = math.prod(lengths[axis + 1 :])
        numbers = along(arange(0, length), axis, len(lengths))
        grid = ops.add(ops.multiply(numbers, step), grid)
    return grid


def index(value: Any, spec: Sequence[Item]) -> Any:
    """Index by numbers, dimensions, scalar tensors, slices, None and `...`."""
    items = _without_ellipsis(spec, rank(value))
    if not is_tensor(value) and not any(map(_is_computed, items)):
        result = np.asarray(value)[tuple(items)]
        return evaluator.simplified(result) if has_dims(value) else result
    lengths = iter(shape(value))
    plain: list[Any] = []
    later: list[tuple[int, Any]] = []  # axis of the result, positions
    axis = 0
    for item in items:
        length = 1 if item is None else next(lengths)
        if isinstance(item, slice):
            ends = _bound(item.start, length, is_start=True), _bound(item.stop, length)
            item = slice(*ends, item.step)
        if isinstance(item, int | slice | None) and not _is_computed(item):
            plain.append(item)
            axis += not isinstance(item, int)
            continue
        later.append((axis, _positions(item, length)))
        plain.append(slice(None))
        axis += 1
    result = _sliced(value, plain)
    for place, positions in reversed(later):
        result = ops.take(result, positions, axis=place)
    return result


def _is_computed(item: Item) -> bool:
    bounds = (item.start, item.stop, item.step) if isinstance(item, slice) else (item,)
    return any(has_dims(bound) or is_tensor(bound) for bound in bounds)


def _bound(value: Any, length: DimLike, *, is_start: bool = False) -> Any:
    """Return a bound of a slice, counted from the end if it is a known number then."""
    if not isinstance(value, Dim):
        return value
    from_end = value - length  # B - B, B - 1 - B
    if isinstance(from_end, Dim) or (is_start and from_end >= 0):
        return value
    return None if from_end >= 0 else from_end


def _positions(item: Any, length: DimLike) -> Any:
    """Return the positions on an axis that a slice or a scalar takes."""
    if not isinstance(item, slice):
        return item if is_tensor(item) else dim_tensors.scalar(item)
    if any(map(is_tensor, (item.start, item.stop))):
        raise ValueError("a slice between positions that are computed from data")
    step = 1 if item.step is None else item.step
    if not isinstance(step, int) or step < 1:
        raise ValueError(f"{item} of an axis of the length {length}")
    start = 0 if item.start is None else _from_start(item.start, length)
    stop = length if item.stop is None else _from_start(item.stop, length)
    if isinstance(length, int):  # as in TensorFlow, slices end where the axis ends
        stop = dims.extreme("min", stop, length)
    return arange(start, stop, step)


def _from_start(bound: DimLike, length: DimLike) -> DimLike:
    return bound + length if isinstance(bound, int) and bound < 0 else bound


def _sliced(value: Any, items: list[Any]) -> Any:
    """Index by numbers and slices; torch does not accept negative steps."""
    if not is_tensor(value):
        return np.asarray(value)[tuple(items)]
    axis = 0
    for position, item in enumerate(items):
        if isinstance(item, slice) and (item.step or 1) < 0:
            value = keras_ops.flip(value, axis)
            items[position] = _forwards(item, value.shape[axis])
        axis += item is not None
    if all(item == slice(None) for item in items):
        return value
    return value[tuple(items)]


def _without_ellipsis(spec: Sequence[Item], axes: int) -> list[Any]:
    """Return an index with full slices for all axes that it leaves out."""
    others = sum(item is not None and item is not Ellipsis for item in spec)
    full_slices = [slice(None)] * (axes - others)
    places = [i for i, item in enumerate(spec) if item is Ellipsis]
    if not places:
        return [*spec, *full_slices]
    return [*spec[: places[0]], *full_slices, *spec[places[0] + 1 :]]


def _forwards(item: slice, length: int | None) -> slice:
    """Convert a backward slice of an axis to a slice of the flipped axis."""
    if (item.start, item.stop) == (None, None):
        return slice(None, None, -item.step)
    if length is None:
        raise ValueError(f"{item} of an axis of unknown size")
    indices = range(length)[item]
    if not indices:
        return slice(0, 0)
    return slice(length - 1 - indices[0], length - indices[-1], -item.step)


def tile(value: Any, multiples: Sequence[DimLike]) -> Any:
    """Repeat a value along its axes."""
    lengths = shape(value)
    times = [1 if isinstance(n, Dim) else n for n in multiples]
    tiled = ops.tile(value, times) if set(times) != {1} else value
    for axis, (length, count) in enumerate(zip(lengths, multiples, strict=True)):
        if isinstance(count, Dim):
            indices = ops.mod(arange(0, count * length), length)
            tiled = ops.take(tiled, indices, axis=axis)
    return tiled


def repeat(value: Any, times: DimLike, axis: int | None) -> Any:
    """Repeat each element `times` times."""
    if not isinstance(times, Dim):
        return ops.repeat(value, times, axis=axis)
    if axis is None:
        value, axis = reshape(value, [-1]), 0
    positions = ops.floor_divide(arange(0, times * shape(value)[axis]), times)
    return ops.take(value, positions, axis=axis)


def truncated_quotient(x: Any, y: Any) -> Any:
    """Divide, rounding towards zero; exact for whole numbers."""
    if not evaluator.is_integer_dtype(dtype_of(x)):
        return ops.trunc(ops.true_divide(x, y))
    down = ops.floor_divide(x, y)
    is_negative = ops.less(down, 0)
    if not is_tensor(is_negative) and not np.any(is_negative):
        return down  # a size stays symbolic
    rest = ops.subtract(x, ops.multiply(down, y))
    is_low = ops.logical_and(is_negative, ops.not_equal(rest, 0))
    return ops.add(down, ops.cast(is_low, dtype_of(down)))
