"""A progress bar for what takes longer than about a second."""

import contextlib
import sys
import time

AFTER_SECONDS = 1.0


@contextlib.contextmanager
def bar(description, total):
    """Yield `advance(count)`; a bar shows on a terminal's stderr after a second.

    Args:
        description: str.
        total: int, what the counts add up to, in bytes.
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

    def advance(count):
        progress.advance(task, count)
        if time.monotonic() - started > AFTER_SECONDS:
            progress.start()

    try:
        yield advance
    finally:
        progress.stop()
