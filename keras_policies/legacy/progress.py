"""A progress bar for work that takes longer than about a second."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

AFTER_SECONDS = 1.0


@contextlib.contextmanager
def bar(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield `advance(count)`; stderr, if it is a terminal, shows a bar after a second.

    `description` is the text beside the bar, `total` the sum of all counts in bytes.
    """
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    import rich.console
    import rich.progress

    progress = rich.progress.Progress(
        rich.progress.TextColumn("{task.description}"),
        rich.progress.BarColumn(),
        rich.progress.DownloadColumn(),
        console=rich.console.Console(stderr=True),
        transient=True,
    )
    task = progress.add_task(description, total=total)
    started = time.monotonic()

    def advance(count: int) -> None:
        progress.advance(task, count)
        if time.monotonic() - started > AFTER_SECONDS:
            progress.start()

    try:
        yield advance
    finally:
        progress.stop()
