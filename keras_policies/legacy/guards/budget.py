"""Limits what a model may cost to what the size of its file explains.

A config of a few bytes can ask for a layer of a billion units, and a graph of a few
nodes for a product of matrices that takes an hour. Whatever a file makes this package
compute is charged here before it is computed: the items that are computed, and the
bytes that are held.
"""

import contextlib
import contextvars
import math
from collections.abc import Iterator
from typing import NamedTuple

from keras_policies.legacy.base.errors import LimitError

# A float16 weight as float32, with the slots of Adam and of its loss-scale wrapper.
TIMES = 16
SMALL_BYTES = 256 * 1024 * 1024
SMALL_ITEMS = 2**27  # computed within a second
MAX_TOLD = 2**64  # larger sizes are not written out: they may have any length


class Left(NamedTuple):
    """What may still be spent: items computed, and bytes held."""

    items: float
    size: float


UNLIMITED = Left(math.inf, math.inf)
_left: contextvars.ContextVar[Left] = contextvars.ContextVar("left", default=UNLIMITED)


@contextlib.contextmanager
def of(size: int, times: int = 1) -> Iterator[None]:
    """Let `spend` raise in this context for more than weights of `size` bytes need.

    `times` is how often the weights are gone through, as in layers over time.
    """
    most = Left(TIMES * size + SMALL_ITEMS, TIMES * size + SMALL_BYTES)
    token = _left.set(Left(most.items * times, most.size * times))
    try:
        yield
    finally:
        _left.reset(token)


def spend(count: float, itemsize: int = 4, computed: float = 0) -> None:
    """Raise `LimitError` if the weights in the file do not explain an array's cost.

    It has `count` numbers (a float where an op computes it) of `itemsize` bytes each.
    `computed` is how many numbers are computed for it, where these are more.
    """
    left, size, items = _left.get(), count * itemsize, max(count, computed)
    for number in (size, items):
        if not 0 <= number < math.inf:  # NaN is neither
            told = _told(number)
            raise LimitError(f"corrupt: the config asks for an array of {told} bytes.")
    if size > left.size:
        raise LimitError(
            f"corrupt: the config asks for an array of {_told(size)} bytes, more than "
            "the weights in the file explain."
        )
    if items > left.items:
        raise LimitError(
            f"corrupt: the file asks to compute {_told(items)} numbers, more than the "
            "weights in it explain."
        )
    if left.size < math.inf:
        _left.set(Left(left.items - items, left.size - size))


def _told(number: float) -> str:
    return f"over {MAX_TOLD}" if number > MAX_TOLD else str(number)
