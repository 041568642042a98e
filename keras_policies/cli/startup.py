"""Chooses the backend of Keras, and imports the package when a command needs it."""

import importlib.util
import os
import sys
from collections.abc import Sequence

from keras_policies._common import keras_names

VARIABLE = "KERAS_BACKEND"
LIGHTEST_FIRST = "jax", "torch", "tensorflow"  # by the time of importing Keras


def choose_backend(names: Sequence[str] = LIGHTEST_FIRST) -> str | None:
    """Make Keras use the first backend that is installed, and return its name.

    Return None if none is installed, if `KERAS_BACKEND` is set, or if Keras is already
    imported.
    """
    if os.environ.get(VARIABLE) or keras_names.is_imported():
        return None
    backend = next(filter(is_installed, names), None)
    if backend is not None:
        os.environ[VARIABLE] = backend
    return backend


def set_backend(name: str) -> None:
    """Make Keras use a backend; raise ValueError if it already uses another one."""
    if keras_names.is_imported():
        running = sys.modules["keras"].backend.backend()
        if running != name:
            raise ValueError(f"--backend {name}: Keras already runs on {running}.")
    os.environ[VARIABLE] = name


def is_installed(name: str) -> bool:
    """Return whether a backend is installed."""
    return name.isidentifier() and importlib.util.find_spec(name) is not None


def import_package() -> None:
    """Run the `__init__` of this package, unless this has been done."""
    package = sys.modules["keras_policies"]
    if "__version__" not in vars(package):
        importlib.reload(package)
