"""Ends a command at SIGTERM, SIGHUP and SIGBREAK in the way that Ctrl-C ends it."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

# Sent by schedulers and service managers; by a terminal that closes; by Windows.
NAMES = "SIGTERM", "SIGHUP", "SIGBREAK"
AGAIN = 8  # seconds until `Ended` is raised again; processes end within 5 (many.GRACE)


class Ended(KeyboardInterrupt):
    """A signal asks the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


def numbers() -> list[int]:
    """Return the numbers of the signals in `NAMES` that this system has."""
    return [int(getattr(signal, name)) for name in NAMES if hasattr(signal, name)]


def insist(handler: Callable[..., Any] | signal.Handlers, seconds: int) -> None:
    """Have a handler called once more, unless the process ends first; 0 undoes this.

    Python drops what a handler raises while a destructor or a callback of a weak
    reference runs, such as the one at the end of each import.
    """
    if hasattr(signal, "alarm"):  # not on Windows, where no other process sends these
        signal.signal(signal.SIGALRM, handler)
        signal.alarm(seconds)


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """Raise `Ended` at the first of these signals, and ignore the following ones.

    Signals that are ignored (nohup) or handled by another program stay so.
    """
    is_main = threading.current_thread() is threading.main_thread()
    own = [n for n in numbers() if is_main and signal.getsignal(n) is signal.SIG_DFL]

    def end(number: int, _: object) -> None:
        for each in own:
            signal.signal(each, signal.SIG_IGN)
        insist(lambda *_: end(number, None), AGAIN)
        raise Ended(number)

    try:
        for number in own:
            signal.signal(number, end)
        yield
    finally:
        if any(signal.getsignal(number) is signal.SIG_IGN for number in own):
            insist(signal.SIG_DFL, 0)
        for number in own:
            signal.signal(number, signal.SIG_DFL)
