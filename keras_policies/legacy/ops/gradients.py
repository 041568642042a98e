"""Gradients, as a model records them that takes some itself (forces, saliency maps).

Products, sums and shapes in them are the ops of the model.
"""

from typing import Any

import numpy as np

from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import array_indexing, array_shapes, converters
from keras_policies.legacy.ops.array_indexing import MASK_SETTINGS
from keras_policies.legacy.ops.converters import Layout, Lengths, Value
from keras_policies.legacy.ops.nn_convolutions import LAST
from keras_policies.legacy.ops.registry import OpSignature, functions, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.dims import DimLike
from keras_policies.legacy.values.evaluator import ops

SELU = 1.0507009873554805, 1.7580993408473766  # its scale, and that times its alpha


def _where_positive(x: Any, one: Any, other: Any = 0.0) -> Any:
    return ops.where(ops.greater(x, 0), one, other)


def _relu6(gradients: Any, features: Any) -> Any:
    return _where_positive(features, ops.where(ops.less(features, 6), gradients, 0.0))


def _softsign(gradients: Any, features: Any) -> Any:
    return ops.divide(gradients, ops.square(ops.add(ops.abs(features), 1.0)))


def _elu(gradients: Any, outputs: Any) -> Any:
    below = ops.multiply(gradients, ops.add(outputs, 1.0))
    return ops.where(ops.less(outputs, 0), below, gradients)


def _selu(gradients: Any, outputs: Any) -> Any:
    below = ops.multiply(gradients, ops.add(outputs, SELU[1]))
    above = ops.multiply(gradients, SELU[0])
    return ops.where(ops.less(outputs, 0), below, above)


def _sigmoid(y: Any, dy: Any) -> Any:
    return ops.multiply(dy, ops.multiply(y, ops.subtract(1.0, y)))


def _rsqrt(y: Any, dy: Any) -> Any:
    return ops.multiply(ops.multiply(dy, -0.5), ops.multiply(y, ops.square(y)))


# By the results of the functions, ...
functions(
    "y dy",
    (_sigmoid, "", "SigmoidGrad"),
    (lambda y, dy: ops.multiply(dy, ops.subtract(1.0, ops.square(y))), "", "TanhGrad"),
    (lambda y, dy: ops.divide(ops.multiply(dy, 0.5), y), "", "SqrtGrad"),
    (_rsqrt, "", "RsqrtGrad"),
    (
        lambda y, dy: ops.negative(ops.multiply(dy, ops.square(y))),
        "",
        "InvGrad ReciprocalGrad",
    ),
)
functions("gradients outputs", (_elu, "", "EluGrad"), (_selu, "", "SeluGrad"))
# ... or by what they took.
functions(
    "gradients features",
    (lambda g, x: _where_positive(x, g), "", "ReluGrad"),
    (_relu6, "", "Relu6Grad"),
    (lambda g, x: ops.multiply(g, ops.sigmoid(x)), "", "SoftplusGrad"),
    (_softsign, "", "SoftsignGrad"),
)
functions(
    "gradients features alpha:float=0.2",
    (
        lambda g, x, alpha: _where_positive(x, g, ops.multiply(g, alpha)),
        "",
        "LeakyReluGrad",
    ),
)


@op(nodes="BiasAddGrad")
def bias_add(out_backprop: Value, data_format: Layout = LAST) -> Value:
    """Return the sum over all axes but that of the channels."""
    axes = [*range(computed.rank(out_backprop))]
    del axes[-1 if data_format == LAST else 1]
    return ops.sum(out_backprop, axis=axes)


def _strided_slice(
    shape: Lengths, begin: Any, end: Any, strides: Lengths, dy: Any, **masks: int
) -> Any:
    """Return zeros with `dy` where a tensor of this shape was indexed."""
    spec = array_indexing.items(begin, end, strides, masks)
    missing = len(shape) - sum(item is not None and item is not ... for item in spec)
    at = spec.index(...) if ... in spec else len(spec)
    axis = 0
    for item in [*spec[:at], *[slice(None)] * missing, *spec[at + 1 :]]:
        if item is None:
            dy = ops.squeeze(dy, axis)
            continue
        if not isinstance(item, slice):
            dy, item = ops.expand_dims(dy, axis), slice(item, None)
        if item != slice(None):
            dy = _placed(dy, axis, item, shape[axis])
        axis += 1
    return dy


functions(
    f"shape:Lengths begin:object end:object strides:Lengths dy {MASK_SETTINGS}",
    (_strided_slice, "", "StridedSliceGrad"),
)


def _placed(dy: Any, axis: int, item: slice, length: DimLike) -> Any:
    """Put the items of an axis to their places among zeros."""
    before, after = np.zeros((2, computed.rank(dy)), "int32").astype(object)
    if item.step is None:
        start = item.start or 0
        start = start + length if start < 0 else start
        before[axis], after[axis] = start, length - start - computed.shape(dy)[axis]
        return array_shapes.pad(dy, np.stack([before, after], 1))
    count = converters.integer(length)
    budget.spend(count, 12)
    places = np.arange(count)[item]
    row_of = np.full(count, len(places), "int32")
    row_of[places] = np.arange(len(places))
    after[axis] = 1  # the row after the last is 0
    return ops.take(array_shapes.pad(dy, np.stack([before, after], 1)), row_of, axis)


@op(BroadcastGradientArgs=OpSignature("s0 s1", "", "r0 r1"))
def broadcast_axes(s0: Lengths, s1: Lengths) -> tuple[Value, ...]:
    """Return the axes along which each of two shapes was broadcast to the other."""
    rank = max(len(s0), len(s1))
    one, other = ([*[1] * (rank - len(each)), *each] for each in (s0, s1))
    # Along an axis of length 1 in both, a sum changes nothing.
    return tuple(
        computed.vector([axis for axis in range(rank) if lengths[axis] == 1])
        for lengths in (one, other)
    )
