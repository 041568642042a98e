"""When the command line imports Keras, and on which backend."""

import importlib.util
import os
import sys
from collections.abc import Sequence

from keras_policies._common import keras_names

VARIABLE = "KERAS_BACKEND"
LIGHTEST_FIRST = "jax", "torch", "tensorflow"  # by the time that Keras takes with it


def choose_backend(names: Sequence[str] = LIGHTEST_FIRST) -> str | None:
    """Let Keras run on the first backend that is installed, and return its name.

    None if there is none, or nothing to choose: `KERAS_BACKEND` is set, or Keras is
    imported already.
    """
    if os.environ.get(VARIABLE) or keras_names.is_imported():
        return None
    backend = next(filter(is_installed, names), None)
    if backend is not None:
        os.environ[VARIABLE] = backend
    return backend


def set_backend(name: str) -> None:
    """Let Keras run on a backend; raise ValueError if it runs on another one."""
    if keras_names.is_imported():
        running = sys.modules["keras"].backend.backend()
        if running != name:
            raise ValueError(f"--backend {name}: Keras runs on {running} already.")
    os.environ[VARIABLE] = name


def is_installed(name: str) -> bool:
    """Return whether a backend is installed."""
    return name.isidentifier() and importlib.util.find_spec(name) is not None


def import_package() -> None:
    """Run the `__init__` of this package, if the command has put that off."""
    package = sys.modules["keras_policies"]
    if "__version__" not in vars(package):
        importlib.reload(package)
