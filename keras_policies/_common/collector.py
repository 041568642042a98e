"""Pauses Python's garbage collector: a million objects take it half a second."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Stop the garbage collector meanwhile, in all threads, if it runs.

    For about a second of work that makes many objects and needs nearly all of them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
