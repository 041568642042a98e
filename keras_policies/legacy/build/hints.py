"""Explains errors that Keras raises while it makes an object from a config."""

import re

import keras

from keras_policies.legacy.base import remedies
from keras_policies.legacy.base.errors import LegacyModelError

MAX_MESSAGE = 2000  # characters; a file can put megabytes of its own into one
REFUSED = (
    re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument"),
    re.compile(r"Unrecognized keyword arguments passed to (\w+)"),
)
TENSORFLOW = (
    "Install TensorFlow (pip install tensorflow-cpu); the backend can stay as it is."
)
SUPER = "super().__init__(**kwargs)"


def innermost(error: BaseException) -> str:
    """Return the error of a layer that Keras has wrapped, cut, without a full stop."""
    while cause := error.__cause__ or error.__context__:
        error = cause
    return f"{type(error).__name__}: {error}"[:MAX_MESSAGE].rstrip(".: ")


def explained(problem: str, error: BaseException) -> LegacyModelError:
    """Return the error to raise for one of Keras, with its reason and a remedy."""
    reason = innermost(error)
    return LegacyModelError(f"{problem}: {reason}.", _remedy(reason))


def _remedy(reason: str) -> str:
    if "requires TensorFlow" in reason:
        return TENSORFLOW
    found = next((match for item in REFUSED if (match := item.search(reason))), None)
    if found is None:
        return ""
    name = found[1]
    if hasattr(keras.layers, name):
        own = f"Keras has a layer {name} of its own: the model's may be another class."
        return f"{own} {remedies.pass_custom_object(name)}"
    return f"Give {name}.__init__ **kwargs, and pass them on to {SUPER}."
