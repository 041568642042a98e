"""Remembers the files that models were loaded from."""

import contextlib
import os
import weakref
from typing import Any

_paths = weakref.WeakKeyDictionary[Any, str]()


def remember(model: Any, source: Any) -> Any:
    """Return a model, and remember its file if `source` is a path."""
    with contextlib.suppress(TypeError):  # a model of a user's class without a hash
        if isinstance(source, str | os.PathLike):
            _paths[model] = os.path.abspath(source)
    return model


def file_of(model: Any) -> str | None:
    """Return the path of the file that a model was loaded from, or None."""
    return _paths.get(model)
