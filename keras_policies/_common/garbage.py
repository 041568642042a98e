"""Python's search for garbage, which takes half a second among a million objects."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def left() -> Iterator[None]:
    """Leave garbage where it is, in all threads.

    For a second of work that makes many objects and needs nearly all of them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
