"""Output that cannot be encoded is escaped, and a closed pipe ends quietly."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import TextIO

# A write to a pipe whose reader has ended, such as `head`: POSIX, and Windows.
CLOSED = errno.EPIPE, errno.EINVAL, errno.ESHUTDOWN


@contextlib.contextmanager
def escaping() -> Iterator[None]:
    r"""Write escapes such as `\u2026` for what the encoding of a stream does not have.

    Pipes on Windows, cron and logs are often not UTF-8.
    """
    with contextlib.ExitStack() as changed:
        for stream in sys.stdout, sys.stderr:
            before = getattr(stream, "errors", None)
            if before == "strict" and hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
                changed.callback(stream.reconfigure, errors=before)
        yield


def only_results() -> contextlib.redirect_stdout[TextIO]:
    """Send what a file, a backend or your own module prints to stderr instead."""
    return contextlib.redirect_stdout(sys.stderr)


def has_closed(error: OSError) -> bool:
    """Return whether an error means that nobody reads stdout; if so, write to nothing.

    Windows reports a closed pipe as an invalid argument, as it does much else. So a
    line end is tried, because unbuffered output is not there to be tried again.
    """
    if error.errno not in CLOSED or error.filename is not None:
        return False
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return isinstance(error, BrokenPipeError)
