"""Keras, imported when something of it is first used.

A legacy file is described without Keras, by packages that also build with it. They
take `keras` and `ops` from here:

    from keras_policies._common.lazy_keras import keras, ops
"""

import contextlib
import importlib
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

_is_refused: ContextVar[bool] = ContextVar("_is_refused", default=False)


class LateModule:
    """Stands for a module, which is imported at the first use of an attribute."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if _is_refused.get():
            raise ValueError("computed when the model is built")
        module = sys.modules.get(self._name) or importlib.import_module(self._name)
        return getattr(module, attribute)


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """Let any use of these modules raise ValueError, as nothing is built yet."""
    token = _is_refused.set(True)
    try:
        yield
    finally:
        _is_refused.reset(token)


if TYPE_CHECKING:
    import keras as keras
    from keras import ops as ops

    from keras_policies import keras_internals as keras_internals
else:
    keras = LateModule("keras")
    ops = LateModule("keras.ops")
    keras_internals = LateModule("keras_policies.keras_internals")
