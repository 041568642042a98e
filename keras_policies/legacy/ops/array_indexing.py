"""Functions directly under `tf` that select, reorder and insert items.

SlicingOpLambda layers record slices as `slice_spec`, NodeDefs as masks.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_policies.legacy.ops import converters
from keras_policies.legacy.ops.converters import DType, Lengths, Value, Values
from keras_policies.legacy.ops.math_reductions import SEGMENTS, descending
from keras_policies.legacy.ops.registry import functions, op
from keras_policies.legacy.values import computed, evaluator, examples
from keras_policies.legacy.values.dims import Dim, DimLike
from keras_policies.legacy.values.evaluator import dtype_of, has_dims, is_tensor, ops

# Settings whose bits say what the positions of a slice mean.
MASKS = "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask"
MASK_SETTINGS = " ".join(f"{name}:int=0" for name in MASKS.split())


@op("__operators__.getitem")
def getitem(tensor: Value, slice_spec: object = None) -> Value:
    """Index by ints, `{"start", "stop", "step"}`, None and `...`, or a list of them."""
    spec = slice_spec if isinstance(slice_spec, list) else [slice_spec]
    return computed.index(tensor, [_item(item) for item in spec])


def _item(item: Any) -> computed.Item:
    if item is None or item is Ellipsis:
        return item
    if isinstance(item, dict) and set(item) == {"start", "stop", "step"}:
        bounds = (item[name] for name in ("start", "stop", "step"))
        return slice(*(None if b is None else converters.length(b) for b in bounds))
    return position(item)


def position(item: Any) -> Any:
    """Return an index: an int, a dimension, or a scalar tensor of integers."""
    if is_tensor(item) and not item.shape and evaluator.is_integer_dtype(item.dtype):
        return item
    return converters.length(item)


def _strided_slice(
    input: Any, begin: Any, end: Any, strides: Lengths | None, **masks: int
) -> Any:
    return computed.index(input, items(begin, end, strides, masks))


functions(
    f"input begin:object end:object strides:Lengths=None {MASK_SETTINGS}",
    (_strided_slice, f"strided_slice StridedSlice(input begin end strides; {MASKS})"),
)


def items(
    begin: Any, end: Any, strides: Lengths | None, masks: Mapping[str, int]
) -> list[computed.Item]:
    """Convert masks, by name, to an index as in Python."""
    spec: list[computed.Item] = []
    ends = _ends(end)
    for i, start in enumerate(_ends(begin)):
        chosen = {name for name, bits in masks.items() if bits & 1 << i}
        step = 1 if strides is None else converters.integer(strides[i])
        if "ellipsis_mask" in chosen:
            spec.append(Ellipsis)
        elif "new_axis_mask" in chosen:
            spec.append(None)
        elif "shrink_axis_mask" in chosen:
            spec.append(start)
        else:
            first = None if "begin_mask" in chosen else start
            last = None if "end_mask" in chosen else ends[i]
            spec.append(slice(first, last, None if step == 1 else step))
    return spec


def _ends(value: Any) -> Sequence[Any]:
    """Return the begins or ends of slices; those in a tensor are scalar tensors."""
    return ops.unstack(value) if is_tensor(value) else converters.lengths(value)


@op("slice Slice")
def slice_(input_: Value, begin: Lengths, size: Lengths) -> Value:
    """Take `size` items of each axis from `begin` on; -1 means up to the end."""
    bounds = zip(begin, size, strict=True)
    spec = [slice(a, None if n == -1 else a + n) for a, n in bounds]
    return computed.index(input_, spec)


@op(
    "gather Gather(params indices) GatherV2(params indices axis; batch_dims) "
    "ResourceGather(params indices; batch_dims)",
    v1=True,
)
def gather(
    params: Value,
    indices: Value,
    validate_indices: object = None,
    axis: int | None = None,
    batch_dims: int = 0,
) -> Value:
    """Take items by their positions on an axis."""
    batch_dims %= computed.rank(indices) + 1
    axis = batch_dims if axis is None else axis % computed.rank(params)
    if not batch_dims:
        return ops.take(params, indices, axis=axis)
    if axis != batch_dims:
        raise ValueError(f"batch_dims: {batch_dims} with the axis {axis}")
    return _gathered(params, indices, axis)


def _gathered(params: Any, indices: Any, axis: int) -> Any:
    """Take items of each example by its own positions."""
    shape, rest = computed.shape(indices), computed.rank(params) - axis - 1
    flat = computed.reshape(indices, [*shape[:axis], math.prod(shape[axis:])])
    for _ in range(rest):
        flat = ops.expand_dims(flat, -1)
    items = ops.take_along_axis(params, flat, axis=axis)
    if len(shape) == axis + 1:
        return items
    return computed.reshape(items, [*shape, *computed.shape(params)[axis + 1 :]])


@op("gather_nd GatherNd|ResourceGatherNd(params indices)", v1=True)
def gather_nd(params: Value, indices: Value, batch_dims: int = 0) -> Value:
    """Take items by their positions on the first axes."""
    if batch_dims:
        raise ValueError(f"batch_dims: expected 0, found {batch_dims}")
    at, _, rest = _flat_positions(indices, computed.shape(params))
    return ops.take(computed.reshape(params, [-1, *rest]), at, axis=0)


def _flat_positions(
    indices: Any, lengths: Sequence[DimLike]
) -> tuple[Any, DimLike, Sequence[DimLike]]:
    """Return positions on the merged first axes, its length, and the other lengths."""
    depth = converters.integer(computed.shape(indices)[-1])
    lengths, rest = lengths[:depth], lengths[depth:]
    steps = computed.vector([math.prod(lengths[i + 1 :]) for i in range(len(lengths))])
    if not any(isinstance(length, Dim) for length in lengths[1:]):
        steps = steps.astype(dtype_of(indices))
    return ops.sum(ops.multiply(indices, steps), axis=-1), math.prod(lengths), rest


@op("Where")
def positions(condition: Value) -> Value:
    """Return the positions of the true items of a mask, one in each row.

    The mask is a constant, or does not depend on the data: then the positions of each
    next example follow, increased by the length of the mask.
    """
    if not is_tensor(condition):
        return np.argwhere(condition)
    one = examples.one_of(condition)
    if one is None:
        raise ValueError("condition: a tensor; how many are true depends on the data")
    step = np.eye(1, one.ndim, dtype="int32") * len(one)
    batch = computed.arange(0, computed.shape(condition)[0] // len(one))
    starts = ops.multiply(computed.along(batch, 0, 3), step)
    at = ops.add(starts, np.argwhere(one).astype("int32"))
    return computed.reshape(at, [-1, one.ndim])


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
    """Call `boolean_mask`: TensorFlow 2 swapped the last two arguments."""
    return boolean_mask(tensor, mask, axis)


@op("sort")
def sort(values: Value, axis: int = -1, direction: str = "ASCENDING") -> Value:
    """Sort along an axis."""
    ascending = ops.sort(values, axis=axis)
    return ops.flip(ascending, axis) if _is_descending(direction) else ascending


@op("argsort")
def argsort(
    values: Value, axis: int = -1, direction: str = "ASCENDING", stable: bool = False
) -> Value:
    """Return the positions that sort along an axis."""
    if _is_descending(direction):
        return descending(values, axis)
    return ops.cast(ops.argsort(values, axis=axis), "int32")


def _is_descending(direction: str) -> bool:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"direction: expected ASCENDING, found {direction!r}")
    return direction == "DESCENDING"


def _reached(compare: str, sorted_sequence: Any, values: Any, out_type: str) -> Any:
    """Count the numbers of the sorted last axis that are below each value."""
    numbers, values = ops.expand_dims(sorted_sequence, -2), ops.expand_dims(values, -1)
    is_below = evaluator.evaluate(compare, numbers, values)
    return ops.sum(ops.cast(is_below, out_type), axis=-1)


functions(
    "sorted_sequence values out_type:DType='int32'",
    (functools.partial(_reached, "less"), "LowerBound"),
    (functools.partial(_reached, "less_equal"), "UpperBound"),
)


@op("searchsorted")
def searchsorted(
    sorted_sequence: Value, values: Value, side: str = "left", out_type: DType = "int32"
) -> Value:
    """Return the positions at which values fit into sorted rows."""
    if side not in ("left", "right"):
        raise ValueError(f"side: expected left or right, found {side!r}")
    compare = "less" if side == "left" else "less_equal"
    return _reached(compare, sorted_sequence, values, out_type)


@op("unravel_index UnravelIndex")
def unravel_index(indices: Value, dims: Lengths) -> Value:
    """Convert positions in a flat tensor to positions on its axes."""
    ends = [math.prod(dims[i + 1 :]) for i in range(len(dims))]
    pairs = zip(ends, dims, strict=True)
    parts = [ops.mod(ops.floor_divide(indices, end), n) for end, n in pairs]
    return ops.stack(parts, axis=0)


@op(
    "reverse_sequence ReverseSequence(input seq_lengths; seq_axis=seq_dim "
    "batch_axis=batch_dim)",
    v1=True,
    renamed={"seq_dim": "seq_axis", "batch_dim": "batch_axis"},
)
def reverse_sequence(
    input: Value, seq_lengths: Value, seq_axis: int, batch_axis: int = 0
) -> Value:
    """Reverse each sequence up to its length."""
    axes = batch_axis, seq_axis
    sequences = ops.moveaxis(input, axes, (0, 1))
    numbers = computed.arange(0, computed.shape(sequences)[1])
    ends = ops.expand_dims(ops.cast(seq_lengths, "int32"), -1)
    backwards = ops.subtract(ops.subtract(ends, 1), numbers)
    places = ops.where(ops.less(numbers, ends), backwards, numbers)
    return ops.moveaxis(gather(sequences, places, batch_dims=1), (0, 1), axes)


@op("dynamic_partition DynamicPartition(data partitions; num_partitions)", v1=True)
def dynamic_partition(
    data: Value, partitions: Value, num_partitions: int
) -> tuple[Value, ...]:
    """Return the items of each partition; the partitions must be known."""
    if is_tensor(partitions):
        raise ValueError("partitions: a tensor; the sizes depend on the data")
    rest = computed.shape(data)[computed.rank(partitions) :]
    if computed.rank(partitions) != 1:
        data = computed.reshape(data, [-1, *rest])
    chosen = (np.flatnonzero(partitions == i) for i in range(num_partitions))
    return tuple(ops.take(data, each, axis=0) for each in chosen)


@op("dynamic_stitch", v1=True)
def dynamic_stitch(indices: Values, data: Values) -> Value:
    """Put rows at their positions, which must be known; the last of several counts."""
    if any(map(is_tensor, indices)):
        raise ValueError("indices: a tensor; the positions depend on the data")
    parts = [
        computed.reshape(part, [-1, *computed.shape(part)[computed.rank(at) :]])
        for at, part in zip(indices, data, strict=True)
    ]
    at = np.concatenate([np.ravel(each) for each in indices])
    row_of = np.full(max(at) + 1, -1, "int32")
    row_of[at] = np.arange(len(at))
    if -1 in row_of:
        raise ValueError(f"indices: none is {row_of.tolist().index(-1)}")
    return ops.take(ops.concatenate(parts, axis=0), row_of, axis=0)


@op("DynamicStitch|ParallelDynamicStitch(*values)")
def dynamic_stitch_node(values: Values) -> Value:
    """Call `dynamic_stitch` for one list: the positions, then the rows."""
    half = len(values) // 2
    return dynamic_stitch(values[:half], values[half:])


@op("scatter_nd ScatterNd", v1=True)
def scatter_nd(indices: Value, updates: Value, shape: Lengths) -> Value:
    """Return zeros with `updates` added at the positions `indices`."""
    if not any(map(has_dims, shape)):
        return ops.scatter(indices, updates, tuple(shape))
    at, count, _ = _flat_positions(indices, shape)
    return computed.reshape(SEGMENTS["sum"](updates, at, count), shape)


@op(
    "compat.v1.sparse_to_dense SparseToDense(sparse_indices output_shape "
    "sparse_values default_value)"
)
def sparse_to_dense(
    sparse_indices: Value,
    output_shape: Lengths,
    sparse_values: Value,
    default_value: Value = 0,
) -> Value:
    """Return a tensor of one value, with other values at some positions."""
    if computed.rank(sparse_indices) < 2:
        sparse_indices = computed.reshape(sparse_indices, [-1, 1])
    values = computed.broadcast_to(sparse_values, computed.shape(sparse_indices)[:1])
    found = scatter_nd(sparse_indices, values, output_shape)
    is_other = scatter_nd(sparse_indices, ops.ones_like(values), output_shape)
    return ops.where(ops.not_equal(is_other, 0), found, default_value)


def _updated(tensor: Any, indices: Any, updates: Any) -> Any:
    """Put the updates in place; torch takes positions only as a matrix."""
    count, axes = computed.rank(indices) - 1, computed.shape(indices)[-1]
    if count > 1:
        indices = computed.reshape(indices, [-1, axes])
        updates = computed.reshape(updates, [-1, *computed.shape(updates)[count:]])
    return ops.scatter_update(tensor, indices, updates)


def _scattered(
    reduction: str, combine: str, tensor: Any, indices: Any, updates: Any
) -> Any:
    """Reduce the updates of each position, and combine them with the item there."""
    lengths = computed.shape(tensor)
    at, count, _ = _flat_positions(indices, lengths)
    reduced = computed.reshape(SEGMENTS[reduction](updates, at, count), lengths)
    return evaluator.evaluate(combine, tensor, reduced)


# Ending of the name in TensorFlow -> its function.
SCATTERED: Mapping[str, Callable[..., Any]] = {
    "update": _updated,
    "add": functools.partial(_scattered, "sum", "add"),
    "sub": functools.partial(_scattered, "sum", "subtract"),
    "max": functools.partial(_scattered, "max", "maximum"),
    "min": functools.partial(_scattered, "min", "minimum"),
}
for _end, _function in SCATTERED.items():
    _row = _function, f"tensor_scatter_nd_{_end} TensorScatter{_end.title()}"
    functions("tensor indices updates", _row, v1=True)
