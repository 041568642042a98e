"""Runs tasks for many files in several processes, and continues after failures."""

import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import BaseContext

from keras_policies.cli.tasks import PRELOADED, Outcome, Problem, Task
from keras_policies.legacy import progress
from keras_policies.legacy.base import hints

# Bytes. A path of a socket has up to 103 on macOS, and 107 on Linux; the server of
# forks appends `/pymp-abcdefgh/listener-abcdefgh` to the folder for temporary files.
MAX_FOLDER = 103 - 32
MOST = 61 if sys.platform == "win32" else sys.maxsize  # processes that Python can await
ENDED = "the process that worked on it ended, probably because memory ran out"


def run(tasks: Sequence[Task], processes: int, doing: str) -> list[Outcome]:
    """Return the outcomes of tasks, in their order; no two have the same path.

    `processes` tasks run at the same time, each in its own process; with 1, all run in
    this process. `doing` is the text beside the progress bar.
    """
    here = (task.run() for task in tasks)
    finished = here if processes < 2 else _in_processes(tasks, processes)
    outcomes = {}
    with progress.bar(doing, len(tasks), is_bytes=False) as advance:
        for outcome in finished:
            advance(1)
            outcomes[outcome.path] = outcome
    return [outcomes[task.path] for task in tasks]


def _in_processes(tasks: Sequence[Task], processes: int) -> Iterator[Outcome]:
    """Yield outcomes as they are ready; run the tasks of dead processes again."""
    unfinished = []
    # Computed before anything is written.
    again = {item.path: item.again() for item in tasks}
    with _pool(processes) as pool:
        futures = {pool.submit(_run, item): item for item in tasks}
        for future in as_completed(futures):
            try:
                yield future.result()
            except BrokenProcessPool:  # raised for all unfinished tasks of the pool
                unfinished.append(again[futures[future].path])
    for item in unfinished:
        with _pool(1) as pool, contextlib.suppress(BrokenProcessPool):
            yield pool.submit(_run, item).result()
            continue
        yield item.failed(Problem(item.path, ENDED, "KP003"))


@contextlib.contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(min(processes, MOST), _context(), _start) as pool:
        try:
            yield pool
        except BaseException:  # Ctrl-C, perhaps in the consumer of the outcomes
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _start() -> None:
    """Prepare a process; its parent shows errors and progress and handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    progress.show_none()
    hints.name_options()


def _end(*_: object) -> None:
    """Unwind the stack, which removes temporary files."""
    raise SystemExit(1)


def _run(task: Task) -> Outcome:
    """Run a task; after SIGTERM, end the process instead of taking the next task."""
    try:
        return task.run()
    except SystemExit:
        os._exit(1)


def _context() -> BaseContext:
    """Return how to start processes: if possible, fork a server that imported Keras.

    This process is never forked, because backends may have started threads in it.
    """
    has_room = len(os.fsencode(tempfile.gettempdir())) <= MAX_FOLDER
    if not has_room or "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context
