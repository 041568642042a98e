"""Limits the memory that a model may take to what the size of its file explains.

A config of a few bytes can ask for a layer of a billion units. No weight in the file
fits it, but that shows only once the variable is there.
"""

import contextlib
import contextvars
import math
from collections.abc import Iterator

from keras_policies.legacy.base.errors import LimitError

# A float16 weight as float32, with the slots of Adam and of its loss-scale wrapper.
TIMES = 16
SMALL_BYTES = 256 * 1024 * 1024
MAX_TOLD = 2**64  # larger sizes are not written out: they may have any length

_left: contextvars.ContextVar[float] = contextvars.ContextVar("left", default=math.inf)


@contextlib.contextmanager
def of(size: int) -> Iterator[None]:
    """Let `spend` raise in this context for more than weights of `size` bytes need."""
    token = _left.set(TIMES * size + SMALL_BYTES)
    try:
        yield
    finally:
        _left.reset(token)


def spend(count: float, itemsize: int = 4) -> None:
    """Raise `LimitError` if the weights in the file do not explain an array's memory.

    It has `count` numbers (a float where an op computes it) of `itemsize` bytes each.
    """
    left, size = _left.get(), count * itemsize
    if not 0 <= size < math.inf:  # NaN is neither
        raise LimitError(f"corrupt: the config asks for an array of {size} bytes.")
    if size > left:
        told = size if size < MAX_TOLD else f"over {MAX_TOLD}"
        raise LimitError(
            f"corrupt: the config asks for an array of {told} bytes, more than the "
            "weights in the file explain."
        )
    if left < math.inf:
        _left.set(left - size)
