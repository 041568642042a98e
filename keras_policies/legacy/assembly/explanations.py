"""Explains the errors that Keras raises while it makes an object from a config."""

import contextlib
import re
import traceback
from collections.abc import Iterator

import keras

from keras_policies._common.text import without_tracers
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.guards import limits

REFUSED = (
    re.compile(r"\b(\w+)\.__init__\(\) got an unexpected keyword argument"),
    re.compile(r"Unrecognized keyword arguments passed to (\w+)"),
    re.compile(r"\b(\w+)\.__init__\(\) missing \d+ required"),
)
# The classes that configs name.
PARTS = keras.Layer, keras.Initializer, keras.Regularizer, keras.constraints.Constraint
SUPER = "super().__init__(**kwargs)"


@contextlib.contextmanager
def whole_tracebacks() -> Iterator[None]:
    """Let tracebacks show the methods of Keras, to find the class that raised."""
    is_filtered = keras.config.is_traceback_filtering_enabled()
    keras.config.disable_traceback_filtering()
    try:
        yield
    finally:
        if is_filtered:
            keras.config.enable_traceback_filtering()


def innermost(error: BaseException) -> str:
    """Return the text of the error that Keras has wrapped, without a full stop."""
    error = _root(error)
    text = f"{type(error).__name__}: {error}"[: limits.TOLD_MESSAGE]
    return without_tracers(text).rstrip(".: ")


def _root(error: BaseException) -> BaseException:
    while cause := error.__cause__ or error.__context__:
        error = cause
    return error


def explained(
    problem: str, error: BaseException, hint: str | hints.Hint = ""
) -> LegacyModelError:
    """Return the error to raise for an error of Keras, with its reason and a hint.

    `hint` is for errors that do not say themselves what to do.
    """
    reason, suspects = innermost(error), [name for name in [_class_of(error)] if name]
    hint = _hint(reason) or hint
    return LegacyModelError(f"{problem}: {reason}.", hint, suspects=suspects)


def _class_of(error: BaseException) -> str | None:
    """Return the name of the Keras class whose code raised an error, or None.

    The innermost method decides; Keras must not have filtered the traceback.
    """
    for frame, _ in reversed([*traceback.walk_tb(_root(error).__traceback__)]):
        owner = frame.f_locals.get("self", frame.f_locals.get("cls"))
        owner = owner if isinstance(owner, type) else type(owner)
        is_part = issubclass(owner, PARTS) and not issubclass(owner, keras.Model)
        if is_part and owner is not keras.Layer and "from_config" in dir(owner):
            return owner.__name__
    return None


def _hint(reason: str) -> str | hints.Hint:
    if "requires TensorFlow" in reason:
        return hints.TENSORFLOW
    if "not connected to `outputs`" in reason:
        return (
            "Keras 3.10 to 3.13 refuse inputs that no layer uses. Install Keras 3.14 "
            "or newer, which needs Python 3.11."
        )
    refused = next((match for item in REFUSED if (match := item.search(reason))), None)
    if refused is None:
        return ""
    name = refused[1]
    if hasattr(keras.layers, name):
        return hints.namesake(name)
    return f"Give {name}.__init__ **kwargs, and pass them on to {SUPER}."
