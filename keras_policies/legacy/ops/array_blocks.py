"""Functions directly under `tf` that move blocks of an image between its axes."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from keras import ops

from keras_policies.legacy.ops.array_indexing import index
from keras_policies.legacy.ops.kinds import Pairs, Tensor
from keras_policies.legacy.ops.registry import Raw, op


@op(
    "space_to_batch",
    "space_to_batch_nd",
    "nn.space_to_batch",
    SpaceToBatchND=Raw("input block_shape paddings"),
)
def space_to_batch(
    input: Tensor, block_shape: tuple[int, ...], paddings: Pairs
) -> Tensor:
    """Make an image of each of the positions in a block."""
    rank = len(block_shape)
    rest = len(input.shape) - rank - 1
    padded = ops.pad(input, ((0, 0), *paddings, *[(0, 0)] * rest))
    parts = _known(padded.shape[1 : rank + 1]) // np.asarray(block_shape)
    pairs = [size for pair in zip(parts, block_shape, strict=True) for size in pair]
    other = padded.shape[rank + 1 :]
    x = ops.reshape(padded, [-1, *map(int, pairs), *other])
    inner = range(2, 2 * rank + 1, 2)
    outer = range(1, 2 * rank, 2)
    last = range(2 * rank + 1, 2 * rank + 1 + rest)
    x = ops.transpose(x, [*inner, 0, *outer, *last])
    return ops.reshape(x, [-1, *map(int, parts), *other])


@op(
    "batch_to_space",
    "compat.v1.batch_to_space_nd",
    BatchToSpaceND=Raw("input block_shape crops"),
)
def batch_to_space(input: Tensor, block_shape: tuple[int, ...], crops: Pairs) -> Tensor:
    """Undo `space_to_batch`, and cut the edges."""
    rank = len(block_shape)
    sizes = _known(input.shape[1 : rank + 1]) * np.asarray(block_shape)
    x = ops.reshape(input, [*block_shape, -1, *input.shape[1:]])
    pairs = [axis for i in range(rank) for axis in (rank + 1 + i, i)]
    x = ops.transpose(x, [rank, *pairs, *range(2 * rank + 1, len(x.shape))])
    x = ops.reshape(x, [-1, *map(int, sizes), *input.shape[rank + 1 :]])
    cuts = [slice(a or None, -b or None) for a, b in crops]
    return index(x, [slice(None), *cuts, ...])


def _known(sizes: Sequence[int | None]) -> npt.NDArray[np.int64]:
    """Return the sizes of axes, or raise ValueError if one is not known."""
    if None in sizes:
        raise ValueError(f"input: axes of the sizes {sizes}; expected known sizes")
    return np.asarray(sizes, "int64")
