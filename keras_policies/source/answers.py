"""Builds and calls models from their code, in a process of its own.

The process runs this file by its path. It does not run the package's `__init__`, which
patches Keras, unless the code imports the user's own modules, which may need it.
"""

import concurrent.futures
import importlib
import importlib.util
import os
import pathlib
import sys
import types
from typing import Any

TOLD = 1500  # characters of an error
COMPILER = "torch._dynamo"
USER_CODE, TENSORFLOW = "user code", "tensorflow"
# Initializers that draw random numbers.
DRAWN = (
    "Orthogonal",
    "RandomNormal",
    "RandomUniform",
    "TruncatedNormal",
    "VarianceScaling",
)


class Answers:
    """Answers requests about modules; `needs` lists what these need.

    Without `USER_CODE`, the package's `__init__` does not run. Without `TENSORFLOW`,
    Keras does not import it, only to ask whether it has to save something of it.
    """

    def __init__(self, *needs: str) -> None:
        if TENSORFLOW not in needs:
            sys.modules["tensorflow"] = None  # type: ignore[assignment]
        if USER_CODE not in needs:
            # Keras imports them for its wrappers and plots, which takes a second each.
            for name in "sklearn", "matplotlib":
                sys.modules[name] = None  # type: ignore[assignment]
            if os.environ.get("KERAS_BACKEND") == "torch":
                _hide_compiler()
            spec = importlib.util.find_spec("keras_policies")
            assert spec is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules["keras_policies"] = module
        self._tools = importlib.import_module("keras_policies.source.comparison")
        # Keras looks for TensorFlow only once. It has to do so while it is hidden.
        keras = importlib.import_module("keras")
        keras.saving.serialize_keras_object(keras.initializers.Zeros())
        if not hasattr(sys.modules.get(COMPILER), "__file__"):
            sys.modules.pop(COMPILER, None)  # what else needs it gets the real one
        if USER_CODE not in needs:
            # `example` replaces the values. Drawing them takes longer than building.
            for name in DRAWN:
                getattr(keras.initializers, name).__call__ = _zeros
        self._file, self._model = "", None  # the last that was built
        self._description = concurrent.futures.Future[Any]()  # of it

    def __call__(self, name: str, *request: Any) -> Any:
        """Return the result of the method of this name; text is an error."""
        try:
            return getattr(self, name)(*request)
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:TOLD]

    def built(self, file: str, options: Any) -> None:
        """Build the model of a module, and begin to describe it in a thread."""
        self._file, self._model = "", None
        self._file, self._model = file, _built(file)
        pool = concurrent.futures.ThreadPoolExecutor(1)  # its state of Keras is new
        self._description = pool.submit(self._tools.described, self._model, **options)
        pool.shutdown(wait=False)

    def described(self, file: str, options: Any) -> Any:
        """Return what describes that model."""
        if file != self._file:  # in a new process
            self.built(file, options)
        return self._description.result()

    def example(self, file: str, weights: str, recipes: Any) -> Any:
        """Return an example of the outputs of that model with these weights."""
        model = self._model if file == self._file else None
        self._model = None
        model = model or _built(file)
        self._tools.read_weights(model, weights)
        # Layers of Keras 3.8 take any entry of that name for TensorFlow itself.
        is_kept_out = sys.modules.get("tensorflow", self) is None
        if is_kept_out:
            del sys.modules["tensorflow"]
        try:
            return self._tools.example(model, recipes)
        finally:
            if is_kept_out:
                sys.modules.setdefault("tensorflow", None)  # type: ignore[arg-type]


start = Answers


def _hide_compiler() -> None:
    """Put a stand-in in place of torch's compiler, whose import takes a second.

    Keras imports it to exclude two functions from compilation. Here, nothing is
    compiled.
    """

    def disable(function: Any = None) -> Any:
        return disable if function is None else function

    importlib.import_module("torch")
    stand_in = types.ModuleType(COMPILER)
    vars(stand_in)["disable"] = disable
    sys.modules.setdefault(COMPILER, stand_in)


def _zeros(_: Any, shape: Any, dtype: Any = None) -> Any:
    """Return the initial value of a weight."""
    keras = importlib.import_module("keras")
    return keras.ops.zeros(shape, dtype)


def _built(file: str) -> Any:
    """Return the model that a module builds, with names that count from the start."""

    def build() -> Any:
        namespace: dict[str, Any] = {"__name__": "model", "__file__": file}
        exec(compile(pathlib.Path(file).read_text("utf-8"), file, "exec"), namespace)
        return namespace["build_model"]()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:  # its state of Keras is new
        return pool.submit(build).result()
