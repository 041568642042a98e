"""Functions directly under `tf` that put items at positions of a tensor."""

import math

from keras_policies.legacy.ops import kinds
from keras_policies.legacy.ops.array_indexing import flat_positions
from keras_policies.legacy.ops.kinds import Lengths, Value
from keras_policies.legacy.ops.math_reductions import unsorted_segment_sum
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.evaluator import has_dims, ops


@op("scatter_nd", v1=True, ScatterNd=Raw("indices updates shape"))
def scatter_nd(indices: Value, updates: Value, shape: Lengths) -> Value:
    """Return zeros with `updates` added at the positions `indices`."""
    if not any(map(has_dims, shape)):
        return ops.scatter(indices, updates, tuple(shape))
    depth = kinds.integer(computed.shape(indices)[-1])
    flat = flat_positions(indices, shape[:depth])
    found = unsorted_segment_sum(updates, flat, math.prod(shape[:depth]))
    return computed.reshape(found, shape)


@op(
    "tensor_scatter_nd_update",
    v1=True,
    TensorScatterUpdate=Raw("tensor indices updates"),
)
def scatter_update(tensor: Value, indices: Value, updates: Value) -> Value:
    """Return `tensor` with `updates` in the place of the items at `indices`."""
    return ops.scatter_update(tensor, indices, updates)
