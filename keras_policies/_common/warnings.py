"""Warnings that point at the user's line."""

import os
import sys
import warnings

from keras_policies._common.text import printable
from keras_policies.backends import NAMES

# Packages whose code is never the user's.
INNER = "keras_policies", "keras", *NAMES
# TensorFlow writes a copy of what `tf.function` compiles to such a file.
GENERATED = "__autograph_generated_file"


class KerasPoliciesWarning(UserWarning):
    """The category of every warning of this package.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("error", KerasPoliciesWarning)
    """


class FormerNameWarning(KerasPoliciesWarning, DeprecationWarning):
    """A name of TensorFlow 2.0 is used. By default, Python shows it only in scripts."""


def warn(
    message: str | KerasPoliciesWarning,
    category: type[KerasPoliciesWarning] = KerasPoliciesWarning,
) -> None:
    """Warn at the line of the first caller that is not us, Keras or its backend."""
    paths = [getattr(sys.modules.get(name), "__file__", None) for name in INNER]
    folders = tuple(f"{os.path.dirname(path)}{os.sep}" for path in paths if path)
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_inner(frame.f_code.co_filename, folders):
        level, frame = level + 1, frame.f_back
    text = printable(message) if isinstance(message, str) else message
    warnings.warn(text, category, stacklevel=level)


def _is_inner(file: str, folders: tuple[str, ...]) -> bool:
    return file.startswith(folders) or os.path.basename(file).startswith(GENERATED)
