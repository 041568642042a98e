"""Ends a command at SIGTERM, SIGHUP and SIGBREAK in the way that Ctrl-C ends it."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

# Sent by schedulers and service managers; by a terminal that closes; by Windows.
NAMES = "SIGTERM", "SIGHUP", "SIGBREAK"


class Ended(KeyboardInterrupt):
    """A signal asks the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


def numbers() -> list[int]:
    """Return the numbers of the signals in `NAMES` that this system has."""
    return [int(getattr(signal, name)) for name in NAMES if hasattr(signal, name)]


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """Raise `Ended` at the first of these signals, and ignore the following ones.

    Signals that are ignored (nohup) or handled by another program stay so.
    """
    is_main = threading.current_thread() is threading.main_thread()
    own = [n for n in numbers() if is_main and signal.getsignal(n) is signal.SIG_DFL]

    def end(number: int, _: FrameType | None) -> None:
        for each in own:
            signal.signal(each, signal.SIG_IGN)
        raise Ended(number)

    try:
        for number in own:
            signal.signal(number, end)
        yield
    finally:
        for number in own:
            signal.signal(number, signal.SIG_DFL)
