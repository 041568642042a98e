"""How this process was started: for the command line, Keras is imported late."""

import importlib.util
import os
import pathlib
import sys
from collections.abc import Sequence

from keras_policies._common import keras_names

VARIABLE = "KERAS_BACKEND"
COMMAND, MODULE = "keras-policies", "keras_policies"
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


def is_installed(name: str) -> bool:
    """Return whether a backend is installed; of one that is not ours, Keras judges."""
    return name not in LIGHTEST_FIRST or importlib.util.find_spec(name) is not None


def is_command() -> bool:
    """Return whether this is `keras-policies` or `python -m keras_policies`.

    While Python looks for the module after `-m`, `sys.argv` begins with `"-m"`, and the
    module's name stands before the arguments in `sys.orig_argv`.
    """
    arguments = getattr(sys, "argv", None) or [""]
    if arguments[0] == "-m":
        return sys.orig_argv[-len(arguments)].removeprefix("-m") == MODULE
    return pathlib.PurePath(arguments[0]).name in (COMMAND, f"{COMMAND}.exe")
