"""Functions directly under `tf` that pick items: slices, gathering, sorting.

Slices come as `slice_spec` in SlicingOpLambda layers, as masks in NodeDefs.
"""

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np
from keras import ops

from keras_policies.legacy.ops import kinds, sizes
from keras_policies.legacy.ops.kinds import Operand, Sizes, Tensor
from keras_policies.legacy.ops.registry import Raw, op

Item: TypeAlias = int | slice | EllipsisType | None
MASKS = "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask"
GATHER_V2 = Raw("params indices axis", "batch_dims")


@op("__operators__.getitem")
def getitem(tensor: Operand, slice_spec: object = None) -> Operand:
    """Index by ints, `{"start", "stop", "step"}`, None and `...`, or a list of them."""
    spec = slice_spec if isinstance(slice_spec, list) else [slice_spec]
    return index(tensor, [_item(item) for item in spec])


def _item(item: Any) -> Item:
    if item is None or item is Ellipsis:
        return item
    if isinstance(item, dict) and set(item) == {"start", "stop", "step"}:
        bounds = (item[name] for name in ("start", "stop", "step"))
        return slice(*(None if b is None else kinds.integer(b) for b in bounds))
    return kinds.integer(item)


def index(tensor: Operand, spec: Sequence[Item]) -> Operand:
    """Index a tensor, a constant or a list of sizes; torch takes no negative steps."""
    if not kinds.is_tensor(tensor):
        found = np.asarray(tensor, dtype=object)[tuple(spec)]
        return found.tolist() if isinstance(found, np.ndarray) else found
    items = _without_ellipsis(spec, len(tensor.shape))
    axis = 0
    for position, item in enumerate(items):
        if isinstance(item, slice) and (item.step or 1) < 0:
            tensor = ops.flip(tensor, axis)
            items[position] = _forwards(item, tensor.shape[axis])
        axis += item is not None
    if all(item == slice(None) for item in items):
        return tensor
    return tensor[tuple(items)]


def _without_ellipsis(spec: Sequence[Item], rank: int) -> list[Item]:
    """Return the index with a full slice for each axis that `...` stands for."""
    if Ellipsis not in spec:
        return list(spec)
    position = spec.index(Ellipsis)
    others = sum(item is not None and item is not Ellipsis for item in spec)
    full = [slice(None)] * (rank - others)
    return [*spec[:position], *full, *spec[position + 1 :]]


def _forwards(item: slice, length: int | None) -> slice:
    """Return the slice of a flipped axis that equals a backward slice of the axis."""
    if (item.start, item.stop) == (None, None):
        return slice(None, None, -item.step)
    if length is None:
        raise ValueError(f"{item} of an axis of unknown size")
    taken = range(length)[item]
    if not taken:
        return slice(0, 0)
    return slice(length - 1 - taken[0], length - taken[-1], -item.step)


@op("strided_slice", StridedSlice=Raw("input begin end strides", MASKS))
def strided_slice(
    input: Operand,
    begin: Sizes,
    end: Sizes,
    strides: Sizes | None = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Operand:
    """Index a tensor; the bits of the masks say what each position means."""
    spec: list[Item] = []
    for i, start in enumerate(begin):
        bit, step = 1 << i, 1 if strides is None else strides[i]
        if ellipsis_mask & bit:
            spec.append(Ellipsis)
        elif new_axis_mask & bit:
            spec.append(None)
        elif shrink_axis_mask & bit:
            spec.append(kinds.integer(start))
        else:
            first = None if begin_mask & bit else kinds.integer(start)
            last = None if end_mask & bit else _end(end[i], input, i)
            spec.append(slice(first, last, None if step == 1 else step))
    return index(input, spec)


def _end(value: int | sizes.Size, tensor: Operand, axis: int) -> int | None:
    """Return the end of a slice, or None if it is the whole size of the axis."""
    if isinstance(value, sizes.Size) and (value.tensor, value.axis) == (tensor, axis):
        return None
    return kinds.integer(value)


@op("slice", Slice=Raw("input_ begin size"))
def slice_(input_: Operand, begin: Sizes, size: Sizes) -> Operand:
    """Take `size` items per axis from `begin` on; a size of -1 goes to the end."""
    spec = []
    for axis, (start, length) in enumerate(zip(begin, size, strict=True)):
        first = kinds.integer(start)
        last = None if length == -1 else _end(length, input_, axis)
        spec.append(slice(first or None, None if last is None else first + last))
    return index(input_, spec)


@op(
    "gather",
    v1=True,
    Gather=Raw("params indices"),
    GatherV2=GATHER_V2,
    ResourceGather=Raw("params indices", "batch_dims"),
)
def gather(
    params: Operand,
    indices: Operand,
    validate_indices: object = None,
    axis: int | None = None,
    batch_dims: int = 0,
) -> Operand:
    """Take the items at these positions of an axis."""
    axis = batch_dims if axis is None else axis
    indices = indices if kinds.is_tensor(indices) else kinds.array(indices)
    if kinds.is_tensor(params):
        if batch_dims:
            return _gathered(params, indices, axis, batch_dims)
    elif kinds.is_tensor(indices):
        params = kinds.array(params)
    else:  # sizes
        return np.asarray(params, dtype=object)[indices].tolist()
    return ops.take(params, indices, axis=axis)


def _gathered(params: Tensor, indices: Operand, axis: int, batch_dims: int) -> Tensor:
    rank, found = len(params.shape), len(indices.shape)
    if found != batch_dims + 1 or axis % rank != batch_dims:
        raise ValueError(f"batch_dims: {batch_dims} with indices of rank {found}")
    for _ in range(rank - found):
        indices = ops.expand_dims(indices, -1)
    return ops.take_along_axis(params, indices, axis=axis)


@op(
    "gather_nd",
    v1=True,
    GatherNd=Raw("params indices"),
    ResourceGatherNd=Raw("params indices"),
)
def gather_nd(params: Tensor, indices: Operand, batch_dims: int = 0) -> Tensor:
    """Take the items at positions that index the first axes together."""
    indices = indices if kinds.is_tensor(indices) else kinds.array(indices)
    depth = indices.shape[-1]
    lengths = params.shape[:depth]
    if batch_dims or None in lengths[1:]:
        raise ValueError(f"indices: {batch_dims=}, into axes of the sizes {lengths}")
    steps = np.asarray([int(np.prod(lengths[i + 1 :])) for i in range(depth)])
    if kinds.is_tensor(indices):
        flat = ops.sum(ops.multiply(indices, steps.astype(indices.dtype)), axis=-1)
    else:
        flat = np.sum(indices * steps, axis=-1)
    lines = ops.reshape(params, (-1, *params.shape[depth:]))
    return ops.take(lines, flat, axis=0)


@op("sort")
def sort(values: Tensor, axis: int = -1, direction: str = "ASCENDING") -> Tensor:
    """Sort along an axis."""
    found = ops.sort(values, axis=axis)
    return ops.flip(found, axis) if _is_descending(direction) else found


@op("argsort")
def argsort(
    values: Tensor, axis: int = -1, direction: str = "ASCENDING", stable: bool = False
) -> Tensor:
    """Return the positions that would sort along an axis."""
    if _is_descending(direction):
        values = ops.negative(values)
    return ops.cast(ops.argsort(values, axis=axis), "int32")


def _is_descending(direction: str) -> bool:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"direction: expected ASCENDING, found {direction!r}")
    return direction == "DESCENDING"
