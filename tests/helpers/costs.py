"""What a call costs: the same verdict on a busy machine and on a fast one."""

import contextlib
import sys
import time
import tracemalloc

# Eight times the work takes 8 times as long if that is linear, and 64 if quadratic.
SHRUNK, MOST_GROWTH = 8, 22
UNNOTICED = 0.4  # seconds of processor time, which nobody minds


@contextlib.contextmanager
def at_most(calls, size=sys.maxsize):
    """Fail if the block calls more functions, or holds more bytes at a time."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    tracemalloc.start()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert count <= calls, f"{count} calls of functions, at most {calls}"
    assert peak <= size, f"{peak} bytes, at most {size}"


def is_linear(work, size, unnoticed=UNNOTICED):
    """Return whether `work(size)` takes a time that is proportional to the size.

    A machine that is busy is slow now and then, but not in five comparisons of five.
    """
    for _ in range(5):
        large = _seconds(work, size)
        if large < unnoticed:
            return True
        small = min(_seconds(work, size // SHRUNK) for _ in range(3))
        if large < MOST_GROWTH * small:
            return True
    return False


def _seconds(work, size):
    start = time.process_time()
    work(size)
    return time.process_time() - start
