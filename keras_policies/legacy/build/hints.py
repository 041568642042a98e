"""What a user can do about an error that Keras raised while it made an object."""

import re

import keras

MAX_MESSAGE = 2000  # characters; a file can put megabytes of its own into one
REFUSED = (
    re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument"),
    re.compile(r"Unrecognized keyword arguments passed to (\w+)"),
)
TENSORFLOW = (
    "TensorFlow must be installed beside (pip install tensorflow-cpu); the backend may "
    "stay what it is."
)


def innermost(error):
    """Return how the message of the first error begins; Keras wraps it in its own."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__
    return f"{type(error).__name__}: {error}"[:MAX_MESSAGE]


def explained(error):
    """Return the message of an error, with what can be done about it.

    Args:
        error: exception that Keras raised.
    """
    message = innermost(error)
    if "requires TensorFlow" in message:
        return f"{message.rstrip('.')}. {TENSORFLOW}"
    found = (pattern.search(message) for pattern in REFUSED)
    name = next((match.group(1) for match in found if match), None)
    return f"{message.rstrip('.')}. {_cure(name)}" if name else message


def _cure(class_name):
    if hasattr(keras.layers, class_name):
        return (
            f"Keras has a layer {class_name} of its own: if the model's is a class of "
            f"yours by that name, pass custom_objects={{{class_name!r}: ...}}."
        )
    return (
        f"Give {class_name}.__init__ **kwargs, and pass them on to "
        "super().__init__(**kwargs)."
    )
