"""Warnings that point at the line of the user's program."""

import os
import pathlib
import sys
import warnings

import keras

INNER = tuple(
    f"{pathlib.Path(file).parent}{os.sep}" for file in (__file__, keras.__file__)
)


def warn(message):
    """Warn, as if the first caller outside of this package and Keras had.

    Args:
        message: str.
    """
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(INNER):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
