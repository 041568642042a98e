"""Functions directly under `tf` that move blocks of an image between its axes."""

import math

from keras_policies.legacy.ops.array_shapes import pad
from keras_policies.legacy.ops.kinds import Pairs, Value
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.computed import index
from keras_policies.legacy.values.evaluator import ops


@op(
    "space_to_batch",
    "space_to_batch_nd",
    "nn.space_to_batch",
    SpaceToBatchND=Raw("input block_shape paddings"),
)
def space_to_batch(
    input: Value, block_shape: tuple[int, ...], paddings: Pairs
) -> Value:
    """Make an image of each of the positions in a block."""
    rank = len(block_shape)
    rest = computed.rank(input) - rank - 1
    padded = pad(input, ((0, 0), *paddings, *[(0, 0)] * rest))
    batch, *lengths = computed.shape(padded)
    pairs = list(zip(lengths[:rank], block_shape, strict=True))
    parts = [size for length, block in pairs for size in (length // block, block)]
    x = computed.reshape(padded, [batch, *parts, *lengths[rank:]])
    inner = range(2, 2 * rank + 1, 2)
    outer = range(1, 2 * rank, 2)
    last = range(2 * rank + 1, 2 * rank + 1 + rest)
    x = ops.transpose(x, [*inner, 0, *outer, *last])
    count = batch * math.prod(block_shape)
    return computed.reshape(x, [count, *parts[::2], *lengths[rank:]])


@op(
    "batch_to_space",
    "compat.v1.batch_to_space_nd",
    BatchToSpaceND=Raw("input block_shape crops"),
)
def batch_to_space(input: Value, block_shape: tuple[int, ...], crops: Pairs) -> Value:
    """Undo `space_to_batch`, and cut the edges."""
    rank = len(block_shape)
    batch, *lengths = computed.shape(input)
    count = batch // math.prod(block_shape)
    x = computed.reshape(input, [*block_shape, count, *lengths])
    pairs = [axis for i in range(rank) for axis in (rank + 1 + i, i)]
    x = ops.transpose(x, [rank, *pairs, *range(2 * rank + 1, rank + 1 + len(lengths))])
    sizes = [n * block for n, block in zip(lengths, block_shape, strict=False)]
    x = computed.reshape(x, [count, *sizes, *lengths[rank:]])
    cuts = [slice(a or None, -b or None) for a, b in crops]
    return index(x, [slice(None), *cuts, ...])
