"""`tf.nn`: pooling that tells the positions."""

from typing import Any

import numpy as np

from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import kinds
from keras_policies.legacy.ops.kinds import Axes, DType, Layout, Padding, Value
from keras_policies.legacy.ops.nn_convolutions import LAST, spatial
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.evaluator import ops


@op(
    "nn.max_pool_with_argmax",
    MaxPoolWithArgmax=Raw(
        "input", "ksize strides padding include_batch_in_index", "output argmax"
    ),
)
def max_pool_with_argmax(
    input: Value,
    ksize: Axes,
    strides: Axes,
    padding: Padding,
    data_format: Layout = LAST,
    output_dtype: DType = "int64",
    include_batch_in_index: bool = False,
) -> tuple[Value, ...]:
    """Return the largest of each patch, and its position in its flat image."""
    batch, *lengths = computed.shape(input)
    rows, columns, channels = kinds.integers(lengths)
    sizes, steps = spatial(ksize, 2, LAST), spatial(strides, 2, LAST)
    starts = [
        _starts(*each, padding)
        for each in zip((rows, columns), sizes, steps, strict=True)
    ]
    # A position beyond the edge is replaced by the nearest inside the patch.
    at = [
        np.clip(
            start[:, None] + np.arange(size),
            np.maximum(start, 0)[:, None],
            np.minimum(start + size, length)[:, None] - 1,
        )
        for start, size, length in zip(starts, sizes, (rows, columns), strict=True)
    ]
    flat = at[0][:, None, :, None] * columns + at[1][None, :, None, :]
    flat = flat.reshape(len(starts[0]), len(starts[1]), -1).astype("int32")
    budget.spend(flat.size * channels, 8)
    lines = computed.reshape(input, [batch, rows * columns, channels])
    items = ops.take(lines, flat, axis=1)
    largest = ops.max(items, axis=3, keepdims=True)
    # The first of equal ones has the lowest position.
    end = np.int32(rows * columns)
    places = ops.where(ops.equal(items, largest), flat[..., None], end)
    found = ops.add(
        ops.multiply(ops.min(places, axis=3), channels),
        np.arange(channels, dtype="int32"),
    )
    if include_batch_in_index:
        number = computed.reshape(computed.arange(0, batch), [-1, 1, 1, 1])
        found = ops.add(found, ops.multiply(number, rows * columns * channels))
    return ops.squeeze(largest, 3), found


def _starts(length: int, size: int, step: int, padding: str) -> Any:
    """Return where the patches of an axis begin; before 0 if it is padded."""
    if padding == "valid":
        return np.arange(0, length - size + 1, step)
    count = -(-length // step)
    before = max((count - 1) * step + size - length, 0) // 2
    return np.arange(count) * step - before
