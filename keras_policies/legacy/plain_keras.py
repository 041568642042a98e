"""Opens and calls saved models in plain Keras, in a process of its own.

So the package's patches of Keras cannot make a wrong file look right.
"""

import json
import os
import pathlib
import sys
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any

import h5py

from keras_policies._common import process
from keras_policies._common.types import Path
from keras_policies.legacy import plain_answers
from keras_policies.legacy.base.weights import Array

SECONDS = 1800  # for one file


class PlainKerasError(Exception):
    """Plain Keras cannot open a file or call its model."""


class CallError(PlainKerasError):
    """Plain Keras opens a file, but cannot call its model on these inputs."""


class Process(process.Process):
    """The process; `backend` is that of Keras there, by default the one here."""

    def __init__(self, backend: str | None = None) -> None:
        super().__init__(plain_answers.__file__, seconds=SECONDS, backend=backend)

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
            PlainKerasError: if the file cannot be opened.
            CallError: if its model cannot be called.
            EndedError: if the process ends, or takes too long.
        """
        request = os.path.abspath(path), inputs, safe_mode, predicts
        answer, tried, error = self.ask(*request)
        if error is not None:
            problem = PlainKerasError if tried == plain_answers.OPENED else CallError
            raise problem(f"it cannot be {tried} in plain Keras: {error}")
        return answer  # type: ignore[no-any-return]


shared = Process()


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
