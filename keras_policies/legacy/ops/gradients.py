"""Gradients, as recorded in models that compute some (forces, saliency maps).

Products, sums and shapes in them are ordinary ops.
"""

from typing import Any

import numpy as np

from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import array_indexing, array_shapes, converters
from keras_policies.legacy.ops.array_indexing import MASK_SETTINGS
from keras_policies.legacy.ops.converters import LAST, Layout, Lengths, Value
from keras_policies.legacy.ops.registry import functions, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.dims import DimLike
from keras_policies.legacy.values.evaluator import ops

# From the results `y` or the arguments `x` of the functions.
functions(
    "y dy",
    "SigmoidGrad: dy * (y * (1.0 - y))",
    "TanhGrad: dy * (1.0 - square(y))",
    "SqrtGrad: dy * 0.5 / y",
    "RsqrtGrad: dy * -0.5 * (y * square(y))",
    "InvGrad ReciprocalGrad: -(dy * square(y))",
)
functions(
    "dy y",
    "EluGrad: where(y < 0, dy * (y + 1.0), dy)",
    # SELU's scale times its alpha, and SELU's scale.
    "SeluGrad: where(y < 0, dy * (y + 1.7580993408473766), dy * 1.0507009873554805)",
)
functions(
    "dy x",
    "ReluGrad: where(x > 0, dy, 0.0)",
    "Relu6Grad: where(x > 0, where(x < 6, dy, 0.0), 0.0)",
    "SoftplusGrad: dy * sigmoid(x)",
    "SoftsignGrad: dy / square(abs(x) + 1.0)",
)
functions("dy x alpha:float=0.2", "LeakyReluGrad: where(x > 0, dy, dy * alpha)")


@op("BiasAddGrad")
def bias_add(out_backprop: Value, data_format: Layout = LAST) -> Value:
    """Return the sum over all axes except the channels."""
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
    (_strided_slice, "StridedSliceGrad"),
)


def _placed(dy: Any, axis: int, item: slice, length: DimLike) -> Any:
    """Put the items of an axis at their places among zeros."""
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
    after[axis] = 1  # a row of zeros after the last one
    return ops.take(array_shapes.pad(dy, np.stack([before, after], 1)), row_of, axis)


@op("BroadcastGradientArgs(s0 s1;; r0 r1)")
def broadcast_axes(s0: Lengths, s1: Lengths) -> tuple[Value, ...]:
    """Return the axes along which each of two shapes was broadcast to the other."""
    rank = max(len(s0), len(s1))
    padded = ([*[1] * (rank - len(each)), *each] for each in (s0, s1))
    # If an axis has length 1 in both, a sum along it changes nothing.
    return tuple(
        computed.vector([axis for axis, length in enumerate(shape) if length == 1])
        for shape in padded
    )
