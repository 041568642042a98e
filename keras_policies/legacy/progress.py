"""A progress bar for work that takes longer than a second."""

import contextlib
import contextvars
import sys
import time
from collections.abc import Callable, Iterator

AFTER_SECONDS = 1.0
_is_shown = contextvars.ContextVar("is_shown", default=False)


def show_none() -> None:
    """Show no bars in this process: another process shows one for all."""
    _is_shown.set(True)


@contextlib.contextmanager
def bar(
    description: str, total: int, is_bytes: bool = True
) -> Iterator[Callable[[int], None]]:
    """Yield `advance(count)`. After a second, show a bar if stderr is a terminal.

    `total` is the sum of all counts; they are numbers of bytes or of files. A bar
    inside another one is not shown.
    """
    if _is_shown.get() or not sys.stderr.isatty():
        yield lambda count: None
        return
    import rich.console
    import rich.progress

    numbers = rich.progress.DownloadColumn() if is_bytes else None
    progress = rich.progress.Progress(
        rich.progress.TextColumn("{task.description}"),
        rich.progress.BarColumn(),
        numbers or rich.progress.MofNCompleteColumn(),
        console=rich.console.Console(stderr=True),
        transient=True,
    )
    task = progress.add_task(description, total=total)
    started = time.monotonic()
    token = _is_shown.set(True)

    def advance(count: int) -> None:
        progress.advance(task, count)
        if time.monotonic() - started > AFTER_SECONDS:
            progress.start()

    try:
        yield advance
    finally:
        _is_shown.reset(token)
        progress.stop()
