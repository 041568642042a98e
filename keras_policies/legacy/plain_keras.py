"""Opens and calls saved models in a process that imports Keras without this package.

The process runs this file by its path. The file imports nothing from the package, so
the package's patches of Keras cannot make a wrong file look right. (multiprocessing
would import the program's main module, which imports the package.) The process computes
on the CPU, because this one may have reserved the memory of all accelerators.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pathlib
import pickle
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Path = str | os.PathLike[str]

IDLE = 60  # seconds without a request after which the process ends
OPENED = "opened"  # what is tried first with a file
TIME = 1800  # seconds for one file; after that, the process counts as hanging
SIZE = 8  # bytes of the number before a request: its length
# Signals that a whole group of processes gets. The parent ends this one.
PASSED_ON = {"SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"}
VALUES = re.compile(r"[-+.,e\d\s\[\]naif]+")  # such as those of a tensor in an error
TOLD = 1500  # characters of an error, or of what a process printed before it ended
START = (
    "import sys; sys.path = sys.argv[2:]; import runpy; "
    "runpy.run_path(sys.argv[1], run_name='__main__')"
)
CPU = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "JAX_PLATFORMS": "cpu",
    "KERAS_TORCH_DEVICE": "cpu",
}


class PlainKerasError(Exception):
    """Plain Keras cannot open a file or call its model."""


class CallError(PlainKerasError):
    """Plain Keras opens a file, but cannot call its model on these inputs."""


class ProcessEndedError(PlainKerasError):
    """The process ended before it answered."""


class Process:
    """The process. It starts with the first call, and serves many files.

    `backend` is the backend of Keras there; None means the one of this process.
    """

    def __init__(self, backend: str | None = None) -> None:
        self._backend = backend
        self._process: subprocess.Popen[bytes] | None = None
        self._owner, self._used = os.getpid(), 0.0
        self._lock = threading.Lock()

    def close(self) -> None:
        """End the process if it runs; in a fork, leave the parent's process alone."""
        process, self._process = self._process, None
        if process is not None and os.getpid() == self._owner:
            process.kill()
            process.communicate()
            self._printed.close()

    def __call__(
        self,
        path: Path,
        inputs: Any = None,
        *,
        safe_mode: bool = True,
        predicts: bool = False,
    ) -> tuple[list[Array], list[Array]]:
        """Open the model in a `.keras` or H5 file of Keras 3, and call it.

        Args:
            path: of the file.
            inputs: nest of arrays, or None to only open the file.
            safe_mode: whether to refuse code in the file.
            predicts: whether to call `predict`, which works in batches and returns no
                losses; `inputs` is then a list.

        Returns:
            The outputs, and the losses that layers and weights add: two flat lists of
            arrays. Half precision becomes float32.

        Raises:
            PlainKerasError: if the file cannot be opened; its subclasses: if the model
                cannot be called, or the process ends.
        """
        request = os.path.abspath(path), inputs, safe_mode, predicts
        with self._lock:
            try:
                answer, tried, error = self._answer(request)
            except BaseException:  # also Ctrl-C: the next call would get this answer
                self.close()
                raise
        if error is not None:
            problem = PlainKerasError if tried == OPENED else CallError
            raise problem(f"it cannot be {tried} in plain Keras: {error}")
        return answer  # type: ignore[no-any-return]

    def _answer(self, request: Any) -> Any:
        if self._process is not None and (
            os.getpid() != self._owner or time.monotonic() > self._used + IDLE / 2
        ):
            self.close()
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(TIME, process.kill)
        timer.start()
        try:
            data = pickle.dumps(request)
            process.stdin.write(len(data).to_bytes(SIZE, "little"))
            process.stdin.write(data)
            process.stdin.flush()
            answer = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise ProcessEndedError(self._why_ended(process)) from error
        finally:
            timer.cancel()
        self._used = time.monotonic()
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        import keras

        self._owner = os.getpid()
        backend = self._backend or keras.backend.backend()
        try:
            self._printed = tempfile.TemporaryFile()  # noqa: SIM115 (until `close`)
            return subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", START, __file__, *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._printed,
                env={**os.environ, **CPU, "KERAS_BACKEND": backend},
            )
        except OSError as error:
            reason = f"plain Keras cannot be started: {error}"
            raise ProcessEndedError(reason) from error

    def _why_ended(self, process: subprocess.Popen[bytes]) -> str:
        process.kill()
        code = process.wait()
        self._printed.seek(0)
        printed = self._printed.read().decode(errors="replace")[-TOLD:].strip()
        reason = f"plain Keras ended with the code {code} (too little memory?)"
        return f"{reason}: {printed}" if printed else reason


shared = Process()
atexit.register(shared.close)


def obstacle(path: Path) -> str | None:
    """Return why a file cannot be opened in plain Keras, or None."""
    if not (os.path.isdir(path) or zipfile.is_zipfile(path)):
        return "it is an H5 file, which does not record which classes are Keras's own"
    own = sorted({*_own_code(objects_in(path))})
    if own:
        return f"it needs code that Keras does not have: {', '.join(own)}"
    is_script = bool(sys.executable) and os.path.isfile(__file__)
    if getattr(sys, "frozen", False) or not is_script:
        return "this program cannot start another Python"
    return None


def objects_in(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects in the config of a Keras 3 file, except its compile config.

    The file is a `.keras` file, unpacked or not, or an H5 file.
    """
    if os.path.isdir(path):
        text = pathlib.Path(path, "config.json").read_bytes()
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            text = archive.read("config.json")
    else:
        with h5py.File(path) as file:
            text = file.attrs["model_config"]
    nests = [json.loads(text)]
    while nests:
        nest = nests.pop()
        if isinstance(nest, dict):
            yield nest
            nests += [nest[key] for key in nest if key != "compile_config"]
        elif isinstance(nest, list):
            nests += nest


def _own_code(objects: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the names of classes and functions that Keras does not have."""
    for config in objects:
        module, name = config.get("module"), config.get("class_name")
        if isinstance(module, str) and not f"{module}.".startswith("keras."):
            yield str(config.get("config") if name == "function" else name)


def predicted(model: Any, inputs: list[Array]) -> list[Array]:
    """Return what a model predicts for a list of inputs, as a list of arrays."""
    tensors = [*map(_with_texts, inputs)]
    outputs = model.predict(tensors[0] if len(tensors) == 1 else tensors, verbose=0)
    outputs = [*outputs.values()] if isinstance(outputs, dict) else outputs
    outputs = outputs if isinstance(outputs, list | tuple) else [outputs]
    return [*map(np.asarray, outputs)]


def _with_texts(value: Array) -> Any:
    """Return an input for `predict`; texts become TensorFlow tensors."""
    if value.dtype.kind != "U":
        return value
    return importlib.import_module("tensorflow").constant(value)


def _answered(
    path: str, inputs: Any, safe_mode: bool, predicts: bool
) -> tuple[Any, str, str | None]:
    """Return the answer to a request, what was tried last, and its error or None."""
    import keras

    tried = OPENED
    try:
        model = keras.models.load_model(path, compile=False, safe_mode=safe_mode)
        shapes = [np.shape(x) for x in keras.tree.flatten(inputs)]
        tried = f"called on inputs of the shapes {shapes}"
        if inputs is None:
            answer: Any = [], []
        elif predicts:
            answer = predicted(model, inputs), []
        else:
            answer = [[*map(_array, each)] for each in _called(model, inputs)]
        ours = [name for name in sys.modules if name.startswith("keras_policies")]
        assert not ours, f"something imports {ours}"
    except Exception as raised:  # whatever a layer raises; Keras wraps it
        error: BaseException = raised
        while cause := error.__cause__ or error.__context__:
            error = cause
        text = f"{type(error).__name__}: {error}"[: 10 * TOLD]
        text = VALUES.sub(_without_values, text)[:TOLD].rstrip(".: ")
        return None, tried, text
    return answer, tried, None


def _without_values(match: re.Match[str]) -> str:
    """Return a run of characters that occur in numbers, with `[…]` for a tensor."""
    run = match[0]
    start, end = run.find("[["), run.rfind("]]")
    return f"{run[:start]}[…]{run[end + 2 :]}" if -1 < start < end else run


def _called(model: Any, inputs: Any) -> tuple[list[Any], list[Any]]:
    """Return the outputs of a model, flat, and the losses that it adds."""
    import keras

    inputs = keras.tree.map_structure(keras.ops.convert_to_tensor, inputs)
    if keras.backend.backend() == "torch":
        importlib.import_module("torch").set_grad_enabled(False)
    if keras.backend.backend() == "jax":
        with contextlib.suppress(Exception):  # a lookup layer, which jax cannot trace
            return _compiled(model, inputs)
    # Augmentation layers run in training mode by default.
    return keras.tree.flatten(model(inputs, training=False)), model.losses


def _compiled(model: Any, inputs: Any) -> tuple[list[Any], list[Any]]:
    """Compile and call a whole model with jax, which is faster than op by op."""
    import keras

    call = functools.partial(model.stateless_call, training=False, return_losses=True)
    variables = model.trainable_variables, model.non_trainable_variables
    values = [[variable.value for variable in each] for each in variables]
    compiled = importlib.import_module("jax").jit(call)
    outputs, _, losses = compiled(*values, inputs)
    return keras.tree.flatten(outputs), losses


def _array(tensor: Any) -> Array:
    import keras

    dtype = keras.backend.standardize_dtype(tensor.dtype)
    tensor = keras.ops.cast(tensor, "float32") if dtype.endswith("float16") else tensor
    return keras.ops.convert_to_numpy(tensor)  # type: ignore[no-any-return]


def _serve() -> None:
    """Answer requests on stdin until it closes or is silent for `IDLE` seconds."""
    for name in PASSED_ON & {*dir(signal)}:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=[requests], daemon=True).start()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries print to stderr, not into the answers
    importlib.import_module("keras")
    gc.freeze()  # modules are never freed: do not scan them after each model
    with contextlib.suppress(queue.Empty):
        while True:
            request = pickle.loads(requests.get(timeout=IDLE))
            pickle.dump(_answered(*request), answers)
            answers.flush()
            gc.collect()  # a model refers to itself
    os._exit(0)  # the thread still reads


def _read(requests: "queue.SimpleQueue[bytes]") -> None:
    """Queue requests; end the process as soon as its parent closes stdin or ends."""
    while size := sys.stdin.buffer.read(SIZE):
        requests.put(sys.stdin.buffer.read(int.from_bytes(size, "little")))
    os._exit(0)


if __name__ == "__main__":
    _serve()
