"""Keras, imported when something of it is first used.

A legacy file is described without Keras, by rooms that also build with it. These take
`keras` and `ops` from here:

    from keras_policies.late import keras, ops
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any


class LateModule:
    """Stands for a module, which is imported at the first use of an attribute."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        module = sys.modules.get(self._name) or importlib.import_module(self._name)
        return getattr(module, attribute)


if TYPE_CHECKING:
    import keras as keras
    from keras import ops as ops

    from keras_policies import keras_internals as keras_internals
else:
    keras = LateModule("keras")
    ops = LateModule("keras.ops")
    keras_internals = LateModule("keras_policies.keras_internals")
