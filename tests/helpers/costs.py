"""What a call costs, counted: the same on a busy machine and on a fast one."""

import contextlib
import sys
import tracemalloc


@contextlib.contextmanager
def at_most(calls, size):
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
