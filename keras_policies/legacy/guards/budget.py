"""Limits the memory and the work that a file asks for to what its size explains.

A config of a few bytes can ask for a layer of a billion units, and a graph of a few
nodes for a product of matrices that takes an hour. Whatever a file makes this package
compute is charged here before it is computed.
"""

import contextlib
import contextvars
import math
from collections.abc import Iterator

from keras_policies.legacy.base.errors import LimitError

# A float16 weight as float32, with the slots of Adam.
TIMES = 8
SMALL_BYTES = 256 * 1024 * 1024
MAX_TOLD = 2**64  # larger sizes are not written out: they may have any length

# Work that a file may ask for, in about microseconds: the least, and for each byte of
# it. Work is counted before it is done.
SMALL_WORK, WORK_PER_BYTE = 1_200_000, 0.7
# Of a value that is looked at, an instruction of code, an op that Keras makes.
ITEM, STEP, OP = 0.5, 4, 450
NUMBER = 0.005  # that numpy computes
COMPILED = 150_000  # function of Keras on arrays of new shapes, which jax compiles
NODE = 500  # of a graph that is run on arrays, and of the model that is called
COPY = 0.02  # of a value that is not looked at

_left: contextvars.ContextVar[float] = contextvars.ContextVar("left", default=math.inf)
_work: contextvars.ContextVar[float] = contextvars.ContextVar("work", default=math.inf)


@contextlib.contextmanager
def of(size: int) -> Iterator[None]:
    """Limit what `spend` and `work` allow in this context to what a file explains.

    `size` is that of the file in bytes. Inside another such context it does nothing.
    """
    if _left.get() < math.inf:
        yield
        return
    with anew(size):
        yield


@contextlib.contextmanager
def anew(size: int) -> Iterator[None]:
    """Limit the same to as much again, inside such a context, too."""
    left = _left.set(TIMES * size + SMALL_BYTES)
    worked = _work.set(WORK_PER_BYTE * size + SMALL_WORK)
    try:
        yield
    finally:
        _left.reset(left)
        _work.reset(worked)


def left() -> float:
    """Return how many bytes may still be held."""
    return _left.get()


def free(size: float) -> None:
    """Give back the bytes of arrays that were charged and are no longer held."""
    if _left.get() < math.inf:
        _left.set(_left.get() + size)


def work(cost: float) -> None:
    """Raise `LimitError` if the size of a file does not explain the work it asks for.

    The cost is that of `ITEM`, `STEP` or `OP`, times their number.
    """
    left = _work.get()
    if not 0 <= cost <= left:
        raise LimitError(
            "it asks for more work than the size of the file explains: loops, or "
            "functions that call each other, which would be made of too many ops."
        )
    if left < math.inf:
        _work.set(left - cost)


def spend(count: float, itemsize: int = 4, computed: float = 0) -> None:
    """Raise `LimitError` if the weights in the file do not explain an array's memory.

    It has `count` numbers (a float where an op computes it) of `itemsize` bytes each.
    `computed` is how many numbers are computed for it, where these are more.
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
    work(max(count, computed) * NUMBER)
