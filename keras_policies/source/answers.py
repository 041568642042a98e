"""Builds and calls models from their code, in a process of its own.

The process runs this file by its path. It does not run the package's `__init__`, which
patches Keras, unless the code imports the user's own modules, which may need it.
"""

import concurrent.futures
import importlib
import importlib.util
import pathlib
import sys
from typing import Any

TOLD = 1500  # characters of an error
USER_CODE, TENSORFLOW = "user code", "tensorflow"


class Answers:
    """Answers requests about one model after the other; `needs` lists what these need.

    Without `USER_CODE`, the package's `__init__` does not run. Without `TENSORFLOW`,
    Keras does not import it, only to ask whether it has to save something of it.
    """

    def __init__(self, *needs: str) -> None:
        if TENSORFLOW not in needs:
            sys.modules["tensorflow"] = None  # type: ignore[assignment]
        if USER_CODE not in needs:
            spec = importlib.util.find_spec("keras_policies")
            assert spec is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules["keras_policies"] = module
        self._tools = importlib.import_module("keras_policies.source.comparison")
        self._model: Any = None

    def __call__(self, name: str, *request: Any) -> Any:
        """Return the answer to a request: a value, or an error as text."""
        try:
            return getattr(self, name)(*request)
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:TOLD]

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


start = Answers


def _built(file: str) -> Any:
    namespace: dict[str, Any] = {"__name__": "model", "__file__": file}
    exec(compile(pathlib.Path(file).read_text("utf-8"), file, "exec"), namespace)
    return namespace["build_model"]()
