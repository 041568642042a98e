"""Functions directly under `tf` that put items at positions of a tensor."""

import math
from collections.abc import Callable
from typing import Any

from keras_policies.legacy.ops import kinds
from keras_policies.legacy.ops.array_indexing import flat_positions
from keras_policies.legacy.ops.kinds import Lengths, Value
from keras_policies.legacy.ops.math_segments import UNSORTED, unsorted_segment_sum
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.evaluator import evaluate, has_dims, ops


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


def _scattered(segments: str, combine: str) -> Callable[..., Any]:
    """Return a function that puts updates of one position together, then with it."""

    def function(tensor: Value, indices: Value, updates: Value) -> Value:
        lengths = computed.shape(tensor)
        depth = kinds.integer(computed.shape(indices)[-1])
        flat = flat_positions(indices, lengths[:depth])
        found = UNSORTED[segments](updates, flat, math.prod(lengths[:depth]))
        return evaluate(combine, tensor, computed.reshape(found, lengths))

    return function


TENSOR = Raw("tensor indices updates")
op("tensor_scatter_nd_add", v1=True, TensorScatterAdd=TENSOR)(_scattered("sum", "add"))
op("tensor_scatter_nd_sub", v1=True, TensorScatterSub=TENSOR)(
    _scattered("sum", "subtract")
)
op("tensor_scatter_nd_max", v1=True, TensorScatterMax=TENSOR)(
    _scattered("max", "maximum")
)
op("tensor_scatter_nd_min", v1=True, TensorScatterMin=TENSOR)(
    _scattered("min", "minimum")
)
