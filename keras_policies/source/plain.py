"""Runs the code of a model in a process of its own, where a user would: in plain Keras.

The process runs this file by its path. It does not run the package's `__init__`, which
patches Keras, unless the code imports the user's own modules, which may need it.
"""

import atexit
import concurrent.futures
import contextlib
import importlib
import importlib.util
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

IDLE = 60  # seconds without a request after which the process ends
TIME = 600  # seconds for one answer; after that, the process counts as hanging
TOLD = 1500  # characters of an error
PLAIN, WHOLE = "plain", "whole"  # whether the package's `__init__` runs
# Keras imports TensorFlow only to ask whether it has to save something of it.
WITHOUT_TENSORFLOW, ANY = "without tensorflow", "any"
START = (
    "import sys; _, file, *modes = sys.argv[:4]; sys.path = sys.argv[4:]; "
    "import runpy; runpy.run_path(file, {'MODES': modes}, run_name='__main__')"
)
CPU = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "JAX_PLATFORMS": "cpu",
    "KERAS_TORCH_DEVICE": "cpu",
}


class EndedError(Exception):
    """The process ended before it answered."""


class Process:
    """The process. It starts with the first request, and serves many models."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._key: Any = None
        self._used = 0.0
        self.lock = threading.Lock()  # for the requests about one model

    def close(self) -> None:
        """End the process if it runs; in a fork, leave the parent's process alone."""
        process, self._process = self._process, None
        if process is not None and self._key[0] == os.getpid():
            process.kill()
            process.communicate()
            self._printed.close()

    def ask(self, mode: str, *request: Any) -> Any:
        """Return the answer to a request: a value, or an error as text.

        Raise EndedError if the process ends, or takes longer than `TIME`.
        """
        import keras

        library = ANY if "tensorflow" in sys.modules else WITHOUT_TENSORFLOW
        key = os.getpid(), keras.backend.backend(), mode, library, *sys.path
        if key != self._key or time.monotonic() > self._used + IDLE / 2:
            self.close()
        process = self._process = self._process or self._start(*key)
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(TIME, process.kill)
        timer.start()
        try:
            pickle.dump(request, process.stdin)
            process.stdin.flush()
            answer = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise EndedError(self._why_ended(process)) from error
        except BaseException:  # Ctrl-C: the next request would get this answer
            self.close()
            raise
        finally:
            timer.cancel()
        self._used = time.monotonic()
        return answer

    def _start(self, *key: Any) -> subprocess.Popen[bytes]:
        self._key, (_, backend, *arguments) = key, key
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 (until `close`)
        try:
            return subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", START, __file__, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._printed,
                env={**os.environ, **CPU, "KERAS_BACKEND": backend},
            )
        except OSError as error:
            raise EndedError(f"Python cannot be started: {error}") from error

    def _why_ended(self, process: subprocess.Popen[bytes]) -> str:
        process.kill()
        code = process.wait()
        self._printed.seek(0)
        printed = self._printed.read().decode(errors="replace")[-TOLD:].strip()
        self.close()
        return f"it ended with the code {code} (too little memory or time?) {printed}"


shared = Process()
atexit.register(shared.close)


class Answers:
    """Answers requests about one model after the other."""

    def __init__(self, mode: str, library: str) -> None:
        if library == WITHOUT_TENSORFLOW:
            sys.modules["tensorflow"] = None  # type: ignore[assignment]
        if mode == PLAIN:
            spec = importlib.util.find_spec("keras_policies")
            assert spec is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules["keras_policies"] = module
        self._tools = importlib.import_module("keras_policies.source.comparison")
        self._model: Any = None

    def build(self, file: str, train: bool) -> Any:
        """Run a module; return what describes its model."""
        self._model = None
        with concurrent.futures.ThreadPoolExecutor(1) as pool:  # new counters of names
            model = self._model = pool.submit(_built, file).result()
        tools = self._tools
        return *tools.described(model, train=train), tools.weights(model)

    def load(self, file: str) -> Any:
        """Load weights; return their hashes."""
        self._model.load_weights(file)
        return self._tools.digests(self._model)

    def call(self, arrays: Any) -> Any:
        """Return the outputs."""
        # Layers of Keras 3.8 take any entry of that name for TensorFlow itself.
        is_kept_out = sys.modules.get("tensorflow", self) is None
        if is_kept_out:
            del sys.modules["tensorflow"]
        try:
            return self._tools.outputs(self._model, arrays)
        finally:
            if is_kept_out:
                sys.modules.setdefault("tensorflow", None)  # type: ignore[arg-type]


def _built(file: str) -> Any:
    namespace: dict[str, Any] = {"__name__": "model", "__file__": file}
    exec(compile(pathlib.Path(file).read_text("utf-8"), file, "exec"), namespace)
    return namespace["build_model"]()


def _serve(mode: str, library: str) -> None:
    """Answer requests on stdin until it closes or is silent for `IDLE` seconds."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries print to stderr, not into the answers
    answers = Answers(mode, library)
    while True:
        idle = threading.Timer(IDLE, signal.raise_signal, [signal.SIGTERM])
        idle.daemon = True
        idle.start()
        try:
            name, *request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        finally:
            idle.cancel()
        try:
            answer = getattr(answers, name)(*request)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"[:TOLD]
        pickle.dump(answer, out)
        out.flush()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        _serve(*globals()["MODES"])
