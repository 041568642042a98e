"""Builds and calls models from their code, in a process of its own.

The process runs this file by its path. It does not run the package's `__init__`, which
patches Keras, unless the code imports the user's own modules, which may need it.
"""

import concurrent.futures
import importlib
import importlib.util
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

TOLD = 1500  # characters of an error
USER_CODE, TENSORFLOW = "user code", "tensorflow"


class Answers:
    """Answers requests, one for each module; `needs` lists what these need.

    Without `USER_CODE`, the package's `__init__` does not run. Without `TENSORFLOW`,
    Keras does not import it, only to ask whether it has to save something of it.
    """

    def __init__(self, *needs: str) -> None:
        if TENSORFLOW not in needs:
            sys.modules["tensorflow"] = None  # type: ignore[assignment]
        if USER_CODE not in needs:
            # Keras imports it for its wrappers alone, which takes a second.
            sys.modules["sklearn"] = None  # type: ignore[assignment]
            spec = importlib.util.find_spec("keras_policies")
            assert spec is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules["keras_policies"] = module
        self._tools = importlib.import_module("keras_policies.source.comparison")

    def __call__(self, *request: Any) -> list[Any]:
        """Return the results of all steps; that of one that fails is text, and last."""
        results = list[Any]()
        try:
            for each in self._steps(*request):
                results.append(each)
        except Exception as error:
            results.append(f"{type(error).__name__}: {error}"[:TOLD])
        return results

    def _steps(
        self, file: str, train: bool, expected: Any, weights: str, recipes: Any
    ) -> Iterator[Any]:
        """Yield what describes the model that a module builds.

        If that is expected, also yield an example of its outputs with these weights.
        """
        with concurrent.futures.ThreadPoolExecutor(1) as pool:  # new counters of names
            model = pool.submit(_built, file).result()
        found = self._tools.described(model, train=train)
        yield found
        if found == expected:
            self._tools.read_weights(model, weights)
            yield self._example(model, recipes)

    def _example(self, model: Any, recipes: Any) -> Any:
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


def _built(file: str) -> Any:
    namespace: dict[str, Any] = {"__name__": "model", "__file__": file}
    exec(compile(pathlib.Path(file).read_text("utf-8"), file, "exec"), namespace)
    return namespace["build_model"]()
