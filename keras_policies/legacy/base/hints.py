"""Hints that several errors give: what the user can do."""

import contextvars

from keras_policies.legacy.base.errors import FilePath

# Whether hints name options of the command line instead of arguments.
_names_options = contextvars.ContextVar("names_options", default=False)

TENSORFLOW = (
    "Install TensorFlow (pip install tensorflow-cpu); the backend can stay as it is. "
    "Texts that are inputs need none with texts='outside' (--texts outside)."
)
BUILD_LOOKUPS = (
    "Build the model in code, with keras.layers.StringLookup for its tables, and call "
    "keras_policies.load_weights."
)
GIVE_LOST_CLASSES = (
    "Write the classes of these layers again, and pass them as custom_objects "
    "(--custom-objects); with lost='refuse' (--lost refuse), the error names each that "
    "is lost."
)
PASS_WEIGHTS = 'Pass the file with its weights: weights="weights.h5" (--weights).'
TRUST = "If you trust where it came from, pass safe_mode=False (--unsafe)."


def load_weights_into_code(path: FilePath) -> str:
    """Return the hint for a file that has weights, but no model to rebuild."""
    return (
        "Build the model in code, and call "
        f"keras_policies.load_weights(model, {str(path)!r})."
    )


def name_options() -> None:
    """Let errors name options of the command line in place of arguments."""
    _names_options.set(True)


def custom_object(name: str, value: str = "...") -> str:
    """Return the argument with which a user passes a class or a function by name.

    `value` stands for the object.

    Example:
        >>> custom_object("Scale")
        "custom_objects={'Scale': ...}"
    """
    if _names_options.get():
        return f"--custom-objects {name}=MODULE:NAME"
    return f"custom_objects={{{name!r}: {value}}}"


def pass_custom_object(name: str) -> str:
    """Return the hint to pass a class or a function by name."""
    return f"Pass a class of your own: {custom_object(name)}."
