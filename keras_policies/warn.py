"""Warnings that point at a line of the user's program."""

import importlib.util
import os
import pathlib
import sys
import warnings

# Folders of code that is never the user's: this package and Keras.
KERAS = importlib.util.find_spec("keras")  # does not import it
INNER = tuple(
    f"{pathlib.Path(file).parent}{os.sep}"
    for file in (__file__, KERAS and KERAS.origin)
    if file
)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the first caller outside this package and Keras.

    Args:
        message: what is wrong, and what to do about it.
        category: class of the warning.
    """
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(INNER):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
