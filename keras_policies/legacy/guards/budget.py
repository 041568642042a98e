"""What building a model may fill memory with: some times what is in its file.

A config of a few bytes can ask for a layer of a billion units. No weight in the file
fits it, but that shows only when the variable is there.
"""

import contextlib
import contextvars
import math

from keras_policies.legacy.base.errors import LegacyModelError

# A float16 weight as float32, with the slots of Adam, and those of its wrapper.
TIMES = 16
SMALL_BYTES = 256 * 1024 * 1024

_left = contextvars.ContextVar("left", default=math.inf)


@contextlib.contextmanager
def of(size):
    """Within, `spend` raises if more is taken than weights of `size` bytes need."""
    token = _left.set(TIMES * size + SMALL_BYTES)
    try:
        yield
    finally:
        _left.reset(token)


def spend(count, itemsize=4):
    """Take the memory of an array, before it is made.

    Args:
        count: int, the numbers in it.
        itemsize: int, bytes.

    Raises:
        LegacyModelError: if that is more than the file of the model explains.
    """
    left = _left.get() - count * itemsize
    if left < 0:
        raise LegacyModelError(
            f"corrupt: the config asks for an array of {count * itemsize} bytes, more "
            "than the weights in the file explain."
        )
    _left.set(left)
