"""A progress bar for work that takes longer than a second."""

import contextlib
import contextvars
import html
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from keras_policies._common.text import one_line

AFTER_SECONDS = 1.0
EVERY_SECONDS = 0.2  # a notebook is shown a new state
UNITS = "", "k", "M", "G", "T"  # of bytes, each a thousand of the one before
_is_shown = contextvars.ContextVar("is_shown", default=False)


class Advance(Protocol):
    """Moves a bar; first prints, if there is something to print, above the bar."""

    def __call__(self, count: int, prints: Callable[[], None] | None = None) -> None:
        """Move the bar by a count."""


def show_none() -> None:
    """Show no bars in this process: another process shows one for all."""
    _is_shown.set(True)


@contextlib.contextmanager
def bar(description: str, total: int, is_bytes: bool = True) -> Iterator[Advance]:
    """Yield `advance(count)`. After a second, show a bar in a terminal or a notebook.

    `total` is the sum of all counts; they are numbers of bytes or of files. A bar
    inside another one is not shown.
    """
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    kind = _in_notebook if _notebook() else _in_terminal if is_terminal else None
    if kind is None or _is_shown.get():
        yield _only_print
        return
    token = _is_shown.set(True)
    try:
        with kind(one_line(description), total, is_bytes) as advance:
            yield advance
    finally:
        _is_shown.reset(token)


def _only_print(count: int, prints: Callable[[], None] | None = None) -> None:
    if prints is not None:
        prints()


def _notebook() -> Any:
    """Return IPython's shell if it is the kernel of a notebook, else None."""
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = get_shell and get_shell()
    return shell if hasattr(shell, "kernel") else None


@contextlib.contextmanager
def _in_terminal(description: str, total: int, is_bytes: bool) -> Iterator[Advance]:
    import rich.console
    import rich.progress

    numbers = rich.progress.DownloadColumn() if is_bytes else None
    progress = rich.progress.Progress(
        rich.progress.TextColumn("{task.description}", markup=False),
        rich.progress.BarColumn(),
        numbers or rich.progress.MofNCompleteColumn(),
        console=rich.console.Console(stderr=True),
        transient=True,
    )
    task = progress.add_task(description, total=total)
    started = time.monotonic()

    def advance(count: int, prints: Callable[[], None] | None = None) -> None:
        if prints is not None:
            progress.stop()
            prints()
        progress.advance(task, count)
        if time.monotonic() - started > AFTER_SECONDS:
            progress.start()

    try:
        yield advance
    finally:
        progress.stop()


@contextlib.contextmanager
def _in_notebook(description: str, total: int, is_bytes: bool) -> Iterator[Advance]:
    """Show HTML that is replaced; rich would need ipywidgets."""
    display = importlib.import_module("IPython.display")
    text, form = html.escape(description), _size if is_bytes else str
    done, shown, handle = 0, time.monotonic() - EVERY_SECONDS + AFTER_SECONDS, None

    def advance(count: int, prints: Callable[[], None] | None = None) -> None:
        nonlocal done, shown, handle
        done += count
        _only_print(count, prints)
        if time.monotonic() - shown <= EVERY_SECONDS:
            return
        shown = time.monotonic()
        numbers = f"{form(done)}/{form(total)}"
        line = f'{text} <progress value="{done}" max="{total}"></progress> {numbers}'
        state = display.HTML(line)
        if handle is None:
            handle = display.display(state, display_id=True)
        else:
            handle.update(state)

    try:
        yield advance
    finally:
        if handle is not None:
            handle.update(display.HTML(""))


def _size(count: int) -> str:
    """Return a number of bytes in short, such as "2.7 kB"."""
    power = min((len(str(count)) - 1) // 3, len(UNITS) - 1)
    return f"{count / 1000**power:.{power and 1}f} {UNITS[power]}B"
