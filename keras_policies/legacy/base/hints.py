"""Remedies that several errors share."""

import contextvars
import dataclasses
import re
import shlex
import sys
from typing import NamedTuple

from keras_policies._common.text import one_line
from keras_policies._common.types import Path

# Whether hints name options of the command line instead of arguments.
_names_options = contextvars.ContextVar("names_options", default=False)


def name_options() -> None:
    """Make errors name command-line options instead of Python arguments."""
    _names_options.set(True)


class Argument(NamedTuple):
    """An argument in Python and on the command line; `str` is what the user types."""

    python: str
    shell: str

    def __str__(self) -> str:
        return self.shell if _names_options.get() else self.python


BACKENDS = Argument("backends=('jax', 'torch')", "--backends jax,torch")
CUSTOM_OBJECTS = Argument("custom_objects", "--custom-objects")
INPUT_SHAPES = Argument(
    'input_shapes={"x": (None, 60, 3)}', "--input-shape x=None,60,3"
)
NUMBERS = Argument("lost='numbers'", "--lost numbers")
OUTSIDE = Argument("texts='outside'", "--texts outside")
OVERWRITE = Argument("overwrite=True", "--overwrite")
POLICY = Argument("dtype_policy", "--policy")
PLAIN = Argument("plain=False", "--no-plain")
REFUSE = Argument("lost='refuse'", "--lost refuse")
UNSAFE = Argument("safe_mode=False", "--unsafe")
UNVERIFIED = Argument("verify=False", "load_model(..., verify=False) in Python")
WEIGHTS = Argument('weights="weights.h5"', "--weights weights.h5")


def quoted(word: str) -> str:
    """Return a word as it is written in the shell of this system, on one line."""
    word = one_line(word)
    if sys.platform != "win32":
        return shlex.quote(word)
    return word if re.fullmatch(r"[\w.:/\\-]+", word) else f'"{word}"'


def signature(name: str) -> Argument:
    """Return the argument that names a signature."""
    return Argument(f"signature={name!r}", f"--signature {quoted(name)}")


@dataclasses.dataclass(frozen=True)
class Hint:
    """What the user can do, and the code of the errors that give this hint."""

    text: str  # a sentence with `{}` for each argument
    arguments: tuple[Argument, ...] = ()
    code: str = ""  # a key of `codes.CODES`, or ""

    def __str__(self) -> str:
        return self.text.format(*self.arguments) if self.arguments else self.text


TENSORFLOW = Hint(
    "Install TensorFlow (pip install tensorflow); the backend can stay as it is. "
    "With {}, text inputs do not need it.",
    (OUTSIDE,),
    "KP403",
)
BUILD_LOOKUPS = Hint(
    "Build the model in code, with the attributes that it had and a "
    "keras.layers.StringLookup for each table, and call keras_policies.load_weights.",
    code="KP305",
)
WITHOUT_TEXTS = Hint(
    "Keras gives some of its text layers wrong shapes. With {}, the model has none.",
    (OUTSIDE,),
    "KP401",
)
GIVE_LOST_CLASSES = Hint(
    "Write the classes of these layers again, and pass them ({}); with {}, the error "
    "names each missing class.",
    (CUSTOM_OBJECTS, REFUSE),
)
RETURNS_TEXTS = Hint(
    "Pass {} for the numbers of these texts, or a signature without them, or set "
    "KERAS_BACKEND=tensorflow.",
    (NUMBERS,),
    "KP306",
)
PASS_WEIGHTS = Hint("Pass the file with its weights: {}.", (WEIGHTS,), "KP106")
TRUST = Hint("If you trust where it came from, pass {}.", (UNSAFE,), "KP202")


REGISTERED = (
    "A class decorated with @keras.saving.register_keras_serializable() only has to be "
    "imported."
)


def load_weights_into_code(path: Path) -> Hint:
    """Return a hint for a file that has weights, but no model to rebuild."""
    call = f"keras_policies.load_weights(model, {str(path)!r})"
    return Hint(f"Build the model in code, and call {call}.", code="KP104")


def skipping(*, by_name: bool, skips: bool) -> str:
    """Return what to do about weights that do not fit, of what was not yet tried."""
    ways = {
        "by_name=True to load the layers whose names are in the file (a checkpoint has "
        "none)": by_name,
        "skip_mismatch=True to skip weights that do not fit": skips,
    }
    left = [way for way, is_tried in ways.items() if not is_tried]
    if not left:
        return "Build the model with the layers, names and shapes of the file."
    return f"Pass {', and '.join(left)}."


def custom_object(name: str, value: str = "...") -> Argument:
    """Return the argument that passes a class or a function by name.

    `value` is the Python code of the object.

    Example:
        >>> str(custom_object("Scale"))
        "custom_objects={'Scale': ...}"
    """
    shell = f"--custom-objects {quoted(name)}=MODULE:NAME"
    return Argument(f"custom_objects={{{name!r}: {value}}}", shell)


def namesake(name: str) -> Hint:
    """Return a hint for a class of Keras that may not be the one in the file."""
    reason = f"Keras also has a layer {name}: the model's may be another class."
    hint = pass_custom_object(name)
    return Hint(f"{reason} {hint.text}", hint.arguments, hint.code)


def pass_custom_object(name: str) -> Hint:
    """Return a hint to pass a class or a function by name."""
    argument = custom_object(name)
    return Hint("Pass a class of your own: {}.", (argument,), "KP303")
