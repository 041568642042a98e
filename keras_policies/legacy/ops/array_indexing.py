"""Functions directly under `tf` that pick items: slices, gathering, sorting.

Slices come as `slice_spec` in SlicingOpLambda layers, as masks in NodeDefs.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_policies.legacy.ops import kinds
from keras_policies.legacy.ops.kinds import Lengths, Value
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.computed import Item
from keras_policies.legacy.values.dims import Dim, DimLike
from keras_policies.legacy.values.evaluator import (
    dtype_of,
    is_integer_dtype,
    is_tensor,
    ops,
)

MASKS = "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask"
GATHER_V2 = Raw("params indices axis", "batch_dims")


@op("__operators__.getitem")
def getitem(tensor: Value, slice_spec: object = None) -> Value:
    """Index by ints, `{"start", "stop", "step"}`, None and `...`, or a list of them."""
    spec = slice_spec if isinstance(slice_spec, list) else [slice_spec]
    return computed.index(tensor, [_item(item) for item in spec])


def _item(item: Any) -> Item:
    if item is None or item is Ellipsis:
        return item
    if isinstance(item, dict) and set(item) == {"start", "stop", "step"}:
        bounds = (item[name] for name in ("start", "stop", "step"))
        return slice(*(None if b is None else kinds.length(b) for b in bounds))
    return position(item)


def position(item: Any) -> Any:
    """Return an index: an int, a dimension, or a scalar tensor of whole numbers."""
    if is_tensor(item) and not item.shape and is_integer_dtype(item.dtype):
        return item
    return kinds.length(item)


@op("strided_slice", StridedSlice=Raw("input begin end strides", MASKS))
def strided_slice(
    input: Value,
    begin: object,
    end: object,
    strides: Lengths | None = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Value:
    """Index a tensor; the bits of the masks say what each position means."""
    spec: list[Item] = []
    ends = _ends(end)
    for i, start in enumerate(_ends(begin)):
        bit, step = 1 << i, 1 if strides is None else kinds.integer(strides[i])
        if ellipsis_mask & bit:
            spec.append(Ellipsis)
        elif new_axis_mask & bit:
            spec.append(None)
        elif shrink_axis_mask & bit:
            spec.append(start)
        else:
            first = None if begin_mask & bit else start
            last = None if end_mask & bit else ends[i]
            spec.append(slice(first, last, None if step == 1 else step))
    return computed.index(input, spec)


def _ends(value: Any) -> Sequence[Any]:
    """Return begins or ends of slices; those of a tensor are scalar tensors."""
    return ops.unstack(value) if is_tensor(value) else kinds.lengths(value)


@op("slice", Slice=Raw("input_ begin size"))
def slice_(input_: Value, begin: Lengths, size: Lengths) -> Value:
    """Take `size` items per axis from `begin` on; a size of -1 goes to the end."""
    bounds = zip(begin, size, strict=True)
    spec = [slice(a, None if n == -1 else a + n) for a, n in bounds]
    return computed.index(input_, spec)


@op(
    "gather",
    v1=True,
    Gather=Raw("params indices"),
    GatherV2=GATHER_V2,
    ResourceGather=Raw("params indices", "batch_dims"),
)
def gather(
    params: Value,
    indices: Value,
    validate_indices: object = None,
    axis: int | None = None,
    batch_dims: int = 0,
) -> Value:
    """Take the items at these positions of an axis."""
    batch_dims %= computed.rank(indices) + 1
    axis = batch_dims if axis is None else axis % computed.rank(params)
    if not batch_dims:
        return ops.take(params, indices, axis=axis)
    if axis != batch_dims:
        raise ValueError(f"batch_dims: {batch_dims} with the axis {axis}")
    return _gathered(params, indices, axis)


def _gathered(params: Any, indices: Any, axis: int) -> Any:
    """Take items of each example by itself, one position after the other."""
    shape, rest = computed.shape(indices), computed.rank(params) - axis - 1
    flat = computed.reshape(indices, [*shape[:axis], math.prod(shape[axis:])])
    for _ in range(rest):
        flat = ops.expand_dims(flat, -1)
    found = ops.take_along_axis(params, flat, axis=axis)
    if len(shape) == axis + 1:
        return found
    return computed.reshape(found, [*shape, *computed.shape(params)[axis + 1 :]])


@op(
    "gather_nd",
    v1=True,
    GatherNd=Raw("params indices"),
    ResourceGatherNd=Raw("params indices"),
)
def gather_nd(params: Value, indices: Value, batch_dims: int = 0) -> Value:
    """Take the items at positions that index the first axes together."""
    depth = kinds.integer(computed.shape(indices)[-1])
    lengths = computed.shape(params)
    if batch_dims:
        raise ValueError(f"batch_dims: expected 0, found {batch_dims}")
    lines = computed.reshape(params, [-1, *lengths[depth:]])
    return ops.take(lines, flat_positions(indices, lengths[:depth]), axis=0)


def flat_positions(indices: Any, lengths: Sequence[DimLike]) -> Any:
    """Return positions on axes of these lengths as positions on one axis."""
    steps = computed.vector([math.prod(lengths[i + 1 :]) for i in range(len(lengths))])
    if not any(isinstance(length, Dim) for length in lengths[1:]):
        steps = steps.astype(dtype_of(indices))
    return ops.sum(ops.multiply(indices, steps), axis=-1)


@op(Where=Raw("condition"))
def positions(condition: Value) -> Value:
    """Return the positions where a constant is true, one in each row."""
    if is_tensor(condition):
        raise ValueError("condition: a tensor; how many are true depends on the data")
    return np.argwhere(condition)


@op("boolean_mask")
def boolean_mask(
    tensor: Value, mask: Value, axis: int | None = None, name: object = None
) -> Value:
    """Take the items where a constant mask is true."""
    first, axes = axis or 0, computed.rank(mask)
    lengths = computed.shape(tensor)
    middle = math.prod(lengths[first : first + axes])
    merged = [*lengths[:first], middle, *lengths[first + axes :]]
    chosen = computed.reshape(positions(computed.reshape(mask, [-1])), [-1])
    return ops.take(computed.reshape(tensor, merged), chosen, axis=first)


@op("compat.v1.boolean_mask")
def boolean_mask_v1(
    tensor: Value, mask: Value, name: object = None, axis: int | None = None
) -> Value:
    """Return what `boolean_mask` does: TensorFlow 2 swapped the last two."""
    return boolean_mask(tensor, mask, axis)


@op("sort")
def sort(values: Value, axis: int = -1, direction: str = "ASCENDING") -> Value:
    """Sort along an axis."""
    found = ops.sort(values, axis=axis)
    return ops.flip(found, axis) if _is_descending(direction) else found


@op("argsort")
def argsort(
    values: Value, axis: int = -1, direction: str = "ASCENDING", stable: bool = False
) -> Value:
    """Return the positions that would sort along an axis."""
    if _is_descending(direction):
        values = ops.negative(values)
    return ops.cast(ops.argsort(values, axis=axis), "int32")


def _is_descending(direction: str) -> bool:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"direction: expected ASCENDING, found {direction!r}")
    return direction == "DESCENDING"
