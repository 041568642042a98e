"""Runs tasks for many files in several processes, and continues after failures."""

import _thread
import contextlib
import functools
import multiprocessing
import multiprocessing.util
import os
import queue
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import BaseContext
from typing import Any

from keras_policies.cli import signals
from keras_policies.cli.tasks import PRELOADED, Problem, Result, Task
from keras_policies.legacy import progress
from keras_policies.legacy.base import hints

FOLDER = "KERAS_POLICIES_RUN"  # environment variable: the folder of a run
# Bytes. A path of a socket has up to 103 on macOS, and 107 on Linux; the server of
# forks appends `/pymp-abcdefgh/listener-abcdefgh` to the folder for temporary files.
MAX_FOLDER = 103 - 32
MOST = 61 if sys.platform == "win32" else sys.maxsize  # processes that Python can await
GRACE = 5  # seconds in which a process removes its temporary files when it has to end
ENDED = "the process that worked on it ended, probably because memory ran out"


def run(
    tasks: Sequence[Task],
    processes: int,
    doing: str,
    ready: Callable[[Result], None] = lambda _: None,
) -> list[Result]:
    """Return the outcomes of tasks, in their order; no two have the same path.

    `processes` tasks run at the same time, each in its own process; with 1, all run in
    this process. `doing` is the text beside the progress bar. `ready` is called with
    each outcome as soon as there is one.
    """
    here = (task.run() for task in tasks)
    finished = here if processes < 2 else _in_processes(tasks, processes)
    outcomes = {}
    with progress.bar(doing, len(tasks), is_bytes=False) as advance:
        for outcome in finished:
            outcomes[outcome.path] = outcome
            advance(1, functools.partial(ready, outcome))
    return [outcomes[task.path] for task in tasks]


def _in_processes(tasks: Sequence[Task], processes: int) -> Iterator[Result]:
    """Yield outcomes as they are ready; run the tasks of dead processes again."""
    unfinished = []
    # Computed before anything is written.
    again = {item.path: item.again() for item in tasks}
    with _pool(processes) as pool:
        futures = {pool.submit(_run, item): item for item in tasks}
        for future in _as_completed(futures):
            try:
                yield future.result()
            except BrokenProcessPool:  # raised for all unfinished tasks of the pool
                unfinished.append(again[futures[future].path])
    for item in unfinished:
        with _pool(1) as pool, contextlib.suppress(BrokenProcessPool):
            yield pool.submit(_run, item).result()
            continue
        yield item.failed(Problem(item.path, ENDED, "KP003"))


def _as_completed(futures: dict[Future[Result], Task]) -> Iterator[Future[Result]]:
    """Yield futures as they are ready; signals are handled while this waits."""
    ready: queue.SimpleQueue[Future[Result]] = queue.SimpleQueue()
    for future in futures:
        future.add_done_callback(ready.put)
    for _ in futures:
        while True:
            with contextlib.suppress(queue.Empty):
                # On Windows, a wait without a limit does not end at Ctrl-C.
                yield ready.get(timeout=1)
                break


@functools.cache
def _folder() -> str:
    """Create a folder for temporary files, which this process removes at its end."""
    folder = tempfile.mkdtemp(prefix="kp-")
    # After multiprocessing has removed its own folder in it, whose priority is -100.
    multiprocessing.util.Finalize(
        None, shutil.rmtree, [folder, True], exitpriority=-200
    )
    return folder


@contextlib.contextmanager
def _temporary_files_in(folder: str) -> Iterator[None]:
    """Let this process, and those that it starts, use a folder for temporary files."""
    replaced = {"TMPDIR": folder, FOLDER: folder}
    before = {name: os.environ.get(name) for name in replaced}
    os.environ.update(replaced)
    directory, tempfile.tempdir = tempfile.tempdir, folder
    try:
        yield
    finally:
        tempfile.tempdir = directory
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


@contextlib.contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    folder, most = _folder(), min(processes, MOST)
    with (
        _temporary_files_in(folder),
        ProcessPoolExecutor(most, _context(), _start, (folder,)) as pool,
    ):
        try:
            yield pool
        except BaseException:  # a signal, perhaps in the consumer of the outcomes
            _end_children()
            raise


def _end_children() -> None:
    """End all children: ask them, and kill those that do not end in time."""
    children, started = multiprocessing.active_children(), time.monotonic()
    for process in children:
        process.terminate()
    for process in children:
        process.join(max(0, started + GRACE - time.monotonic()))
    for process in children:
        process.kill()


def _start(folder: str) -> None:
    """Prepare a process; its parent shows errors and progress and handles signals."""
    for number in (signal.SIGINT, *signals.numbers()):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    threading.Thread(target=_end_with_parent, args=[folder], daemon=True).start()
    progress.show_none()
    hints.name_options()


def _end(*_: object) -> None:
    """Unwind the stack, which removes temporary files."""
    signals.insist(_end, GRACE)
    raise SystemExit(1)


def _end_with_parent(folder: str) -> None:
    """Wait until the parent is gone, and end this process as at SIGTERM."""
    parent: Any = multiprocessing.parent_process()
    parent.join()
    shutil.rmtree(folder, ignore_errors=True)
    if hasattr(signal, "pthread_kill"):  # also wakes a thread that waits
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    else:
        _thread.interrupt_main(signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


def _run(task: Task) -> Result:
    """Run a task; after SIGTERM, end the process instead of taking the next task."""
    try:
        return task.run()
    except SystemExit:
        os._exit(1)


def _context() -> BaseContext:
    """Return how to start processes: if possible, fork a server that imported Keras.

    This process is never forked, because backends may have started threads in it.
    """
    has_room = len(os.fsencode(_folder())) <= MAX_FOLDER
    if not has_room or "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PRELOADED, "keras_policies.cli.last_one"])
    return context
