"""Small tensors: an operation on one takes longer than the arithmetic in it."""

import collections
import math
from collections.abc import Iterable

from keras import ops

from keras_policies.annotations import Tensor

SMALL = 1024  # elements


def is_small(tensor: Tensor) -> bool:
    """Return whether a tensor of known shape is a small one."""
    size: int = math.prod(tensor.shape)
    return size <= SMALL


def joined(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Return tensors with the same elements: small ones of a dtype become one.

    XLA takes long to compile many reductions.
    """
    small: dict[str, list[Tensor]] = collections.defaultdict(list)
    large = []
    for tensor in tensors:
        if is_small(tensor):
            small[tensor.dtype].append(ops.ravel(tensor))
        else:
            large.append(tensor)
    return [*large, *map(ops.concatenate, small.values())]
