"""Asks a process of its own, which has Keras but not this package's patches.

The process runs this file by its path, so nothing of the package is imported there.
(multiprocessing would import the program's main module, which imports the package.) It
computes on the CPU, because this process may have reserved the memory of all
accelerators.
"""

import atexit
import contextlib
import gc
import importlib.util
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, BinaryIO

IDLE = 60  # seconds without a request after which the process ends
SIZE = 8  # bytes of the number before a request: its length
# New objects before Python looks for garbage. A large model is a million objects, all
# in use: with Python's 700 or 2,000, a third of the time goes into looking at them.
GARBAGE = 100_000
TOLD = 1500  # characters of an error, or of what a process printed before it ended
# Signals that a whole group of processes gets. The parent ends this one.
PASSED_ON = {"SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"}
# `sys` is built in. Other modules could be files in the current folder until then.
START = (
    "import sys; at = sys.argv.index('--'); sys.path = sys.argv[at + 1 :]; "
    "del sys.argv[at:]; import runpy; runpy.run_path(sys.argv[1], run_name='__main__')"
)
CPU = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "JAX_PLATFORMS": "cpu",
    "KERAS_TORCH_DEVICE": "cpu",
}


class EndedError(Exception):
    """The process ended before it answered."""


class Process:
    """The process. It starts with the first request, and serves many.

    Args:
        file: path of the file that has a function `start`. Called with `arguments`, it
            returns the function that answers requests.
        arguments: texts.
        seconds: for one answer; after that, the process counts as hanging.
        backend: of Keras there; None means the one of this process.
    """

    def __init__(
        self, file: str, *arguments: str, seconds: float, backend: str | None = None
    ) -> None:
        self._command = [file, *arguments]
        self._backend, self.seconds = backend, seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._key: list[Any] = []
        self._used = 0.0
        self.lock = threading.RLock()
        atexit.register(self.close)

    def close(self) -> None:
        """End the process if it runs; in a fork, leave the parent's process alone."""
        process, self._process = self._process, None
        if process is not None and self._key[0] == os.getpid():
            process.kill()
            process.communicate()
            self._printed.close()

    def start(self) -> None:
        """Start the process unless it runs; it imports Keras meanwhile."""
        with self.lock:
            self._running()

    def ask(self, *request: Any) -> Any:
        """Return the answer to a request; raise EndedError if the process ends."""
        with self.lock:
            try:
                return self._answer(request)
            except BaseException:  # also Ctrl-C: the next request would get this answer
                self.close()
                raise

    def _running(self) -> subprocess.Popen[bytes]:
        import keras

        key = [os.getpid(), self._backend or keras.backend.backend(), *sys.path]
        if key != self._key or time.monotonic() > self._used + IDLE / 2:
            self.close()
        self._key = key
        if self._process is None:
            self._process, self._used = self._started(), time.monotonic()
        return self._process

    def _answer(self, request: Any) -> Any:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(self.seconds, process.kill)
        timer.start()
        try:
            data = pickle.dumps(request)
            process.stdin.write(len(data).to_bytes(SIZE, "little"))
            process.stdin.write(data)
            process.stdin.flush()
            answer = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise EndedError(self._why_ended(process)) from error
        finally:
            timer.cancel()
        self._used = time.monotonic()
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        _, backend, *path = self._key
        command = [sys.executable, "-W", "ignore", "-c", START, __file__]
        try:
            self._printed = tempfile.TemporaryFile()  # noqa: SIM115 (until `close`)
            return subprocess.Popen(
                [*command, *self._command, "--", *path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._printed,
                env={**os.environ, **CPU, "KERAS_BACKEND": backend},
            )
        except OSError as error:
            raise EndedError(f"plain Keras cannot be started: {error}") from error

    def _why_ended(self, process: subprocess.Popen[bytes]) -> str:
        process.kill()
        code = process.wait()
        self._printed.seek(0)
        printed = self._printed.read().decode(errors="replace")[-TOLD:].strip()
        reason = f"plain Keras ended with the code {code} (too little memory?)"
        return f"{reason}: {printed}" if printed else reason


def _serve(file: str, *arguments: str) -> None:
    """Answer requests on stdin until it closes or is silent for `IDLE` seconds."""
    for name in PASSED_ON & {*dir(signal)}:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    # On Windows, all calls on the handle of a pipe wait while a thread reads from it.
    # Libraries look at stdin when they are loaded, so that becomes another handle.
    given = os.fdopen(os.dup(0), "rb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    threading.Thread(target=_read, args=[given, requests], daemon=True).start()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries print to stderr, not into the answers
    spec = importlib.util.spec_from_file_location("answers", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    answer = module.start(*arguments)
    gc.freeze()  # modules are never freed: do not scan them after each model
    gc.set_threshold(GARBAGE)
    with contextlib.suppress(queue.Empty):
        while True:
            request = pickle.loads(requests.get(timeout=IDLE))
            pickle.dump(answer(*request), answers)
            answers.flush()
            gc.collect()  # a model refers to itself
    os._exit(0)  # the thread still reads


def _read(given: BinaryIO, requests: "queue.SimpleQueue[bytes]") -> None:
    """Queue requests; end the process as soon as its parent closes stdin or ends."""
    while size := given.read(SIZE):
        requests.put(given.read(int.from_bytes(size, "little")))
    os._exit(0)


if __name__ == "__main__":
    _serve(*sys.argv[2:])
