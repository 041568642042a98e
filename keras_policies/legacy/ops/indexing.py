"""Indexing: the slices that TFOpLambda layers record, and those of NodeDefs."""

import numpy as np
from keras import ops

from keras_policies.legacy.ops import kinds, sizes


def getitem(tensor: kinds.operand, slice_spec: kinds.anything = None):
    """`tensor[slice_spec]`.

    Args:
        tensor: tensor, constant or list of sizes.
        slice_spec: list of ints, `{"start", "stop", "step"}`, None, and `...`.
    """
    spec = [_item(item) for item in _items(slice_spec)]
    return index(tensor, spec)


def _items(spec):
    return spec if isinstance(spec, list) else [spec]


def _item(item):
    if item is None or item is Ellipsis:
        return item
    if isinstance(item, dict) and set(item) == {"start", "stop", "step"}:
        return slice(*(_bound(item[name]) for name in ("start", "stop", "step")))
    return kinds.integer(item)


def _bound(value):
    return None if value is None else kinds.integer(value)


def index(tensor, spec):
    """Index a tensor, a constant or a list of sizes; torch takes no negative steps."""
    if not kinds.is_tensor(tensor):
        found = np.asarray(tensor, dtype=object)[tuple(spec)]
        return found.tolist() if isinstance(found, np.ndarray) else found
    spec = _without_ellipsis(spec, len(tensor.shape))
    axis, flipped = 0, []
    for position, item in enumerate(spec):
        if item is None:
            continue
        if isinstance(item, slice) and (item.step or 1) < 0:
            tensor = ops.flip(tensor, axis)
            spec[position] = _forwards(item, tensor.shape[axis])
            flipped.append(axis)
        axis += 1
    if all(item == slice(None) for item in spec):
        return tensor
    return tensor[tuple(spec)]


def _without_ellipsis(spec, rank):
    """Return the index with a full slice for each axis that `...` stands for."""
    if Ellipsis not in spec:
        return list(spec)
    position = spec.index(Ellipsis)
    others = sum(item is not None and item is not Ellipsis for item in spec)
    return [
        *spec[:position],
        *[slice(None)] * (rank - others),
        *spec[position + 1 :],
    ]


def _forwards(item, length):
    """Return the slice of a flipped axis that is a backward slice of the axis."""
    if (item.start, item.stop) == (None, None):
        return slice(None, None, -item.step)
    if length is None:
        raise ValueError(f"{item} of an axis of unknown size")
    taken = range(length)[item]
    if not taken:
        return slice(0, 0)
    return slice(length - 1 - taken[0], length - taken[-1], -item.step)


def strided_slice(
    input: kinds.operand,
    begin: kinds.sizes,
    end: kinds.sizes,
    strides: kinds.sizes = None,
    begin_mask: kinds.integer = 0,
    end_mask: kinds.integer = 0,
    ellipsis_mask: kinds.integer = 0,
    new_axis_mask: kinds.integer = 0,
    shrink_axis_mask: kinds.integer = 0,
):
    """`tf.strided_slice`, whose masks say what each position is."""
    spec = []
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


def _end(value, tensor, axis):
    """Return the end of a slice; the whole length of its own axis is none."""
    if isinstance(value, sizes.Size) and (value.tensor, value.axis) == (tensor, axis):
        return None
    return kinds.integer(value)


def slice_(input_: kinds.operand, begin: kinds.sizes, size: kinds.sizes):
    """`tf.slice`; a size of -1 goes to the end."""
    spec = []
    for axis, (start, length) in enumerate(zip(begin, size, strict=True)):
        start = kinds.integer(start)
        is_whole = length == -1 or _end(length, input_, axis) is None
        spec.append(slice(start or None, None if is_whole else start + length))
    return index(input_, spec)


def gather(
    params: kinds.operand,
    indices: kinds.operand,
    axis: kinds.integer = None,
    batch_dims: kinds.integer = 0,
):
    """`tf.gather`."""
    axis = batch_dims if axis is None else axis
    indices = indices if kinds.is_tensor(indices) else kinds.array(indices)
    if not kinds.is_tensor(params):
        if not kinds.is_tensor(indices):  # of sizes
            return np.asarray(params, dtype=object)[indices].tolist()
        params = kinds.array(params)
    elif batch_dims:
        return _gather_in_batch(params, indices, axis, batch_dims)
    return ops.take(params, indices, axis=axis)


def _gather_in_batch(params, indices, axis, batch_dims):
    rank, found = len(params.shape), len(indices.shape)
    if found != batch_dims + 1 or axis % rank != batch_dims:
        raise ValueError(f"batch_dims: {batch_dims} with indices of rank {found}")
    for _ in range(rank - found):
        indices = ops.expand_dims(indices, -1)
    return ops.take_along_axis(params, indices, axis=axis)


def gather_nd(
    params: kinds.tensor, indices: kinds.operand, batch_dims: kinds.integer = 0
):
    """`tf.gather_nd`: one position in all the axes that are indexed."""
    indices = indices if kinds.is_tensor(indices) else kinds.array(indices)
    depth = indices.shape[-1]
    lengths = params.shape[:depth]
    if batch_dims or None in lengths[1:]:
        raise ValueError(f"indices: into axes of the sizes {lengths}")
    steps = np.asarray([int(np.prod(lengths[i + 1 :])) for i in range(depth)])
    if kinds.is_tensor(indices):
        flat = ops.sum(ops.multiply(indices, steps.astype(indices.dtype)), axis=-1)
    else:
        flat = np.sum(indices * steps, axis=-1)
    lines = ops.reshape(params, (-1, *params.shape[depth:]))
    return ops.take(lines, flat, axis=0)


def one_hot(
    indices: kinds.tensor,
    depth: kinds.integer,
    on_value: kinds.number = 1,
    off_value: kinds.number = 0,
    axis: kinds.integer = -1,
    dtype: kinds.dtype = "float32",
):
    """`tf.one_hot`."""
    hot = ops.one_hot(indices, depth, axis=axis, dtype=dtype)
    if (on_value, off_value) == (1, 0):
        return hot
    return ops.add(ops.multiply(hot, on_value - off_value), off_value)


def _extreme(find):
    def function(
        input: kinds.tensor,
        axis: kinds.integer = 0,
        output_type: kinds.dtype = "int64",
    ):
        found = find(input, axis=axis)
        # Of int64, its default, each backend has what it counts with.
        return found if output_type == "int64" else ops.cast(found, output_type)

    return function


def sort(
    values: kinds.tensor,
    axis: kinds.integer = -1,
    direction: kinds.string = "ASCENDING",
):
    """`tf.sort`."""
    found = ops.sort(values, axis=axis)
    return ops.flip(found, axis) if _is_descending(direction) else found


def argsort(
    values: kinds.tensor,
    axis: kinds.integer = -1,
    direction: kinds.string = "ASCENDING",
    stable: kinds.boolean = False,
):
    """`tf.argsort`."""
    if _is_descending(direction):
        values = ops.negative(values)
    return ops.cast(ops.argsort(values, axis=axis), "int32")


def _is_descending(direction):
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"direction: expected ASCENDING, found {direction!r}")
    return direction == "DESCENDING"


def top_k(
    input: kinds.tensor,
    k: kinds.integer = 1,
    sorted: kinds.boolean = True,
    index_type: kinds.dtype = "int32",
):
    """`tf.math.top_k`."""
    return tuple(ops.top_k(input, k, sorted=sorted))


def embedding_lookup(
    params: kinds.operand, ids: kinds.operand, max_norm: kinds.anything = None
):
    """`tf.nn.embedding_lookup`."""
    if max_norm is not None:
        raise ValueError(f"max_norm: expected None, found {max_norm!r}")
    return gather(params, ids, 0)


FUNCTIONS = {
    "nn.embedding_lookup": embedding_lookup,
    "__operators__.getitem": getitem,
    "slice": slice_,
    "strided_slice": strided_slice,
    "gather": gather,
    "gather_nd": gather_nd,
    "one_hot": one_hot,
    "math.argmax": _extreme(ops.argmax),
    "math.argmin": _extreme(ops.argmin),
    "sort": sort,
    "argsort": argsort,
    "math.top_k": top_k,
}
