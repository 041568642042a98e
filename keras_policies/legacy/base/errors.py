"""The one error that every unreadable or foreign file ends in."""

import contextlib

from keras_policies.annotations import Path

# What Python, h5py and numpy raise for values that are not of the kind they expect.
UNEXPECTED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    RecursionError,
    RuntimeError,
    TypeError,
    ValueError,
)


class LegacyModelError(ValueError):
    """A legacy model could not be read, or not be turned into a Keras 3 model.

    The message names the file, what is wrong with it, and what can be done.

    Example:
        >>> try:
        ...     load_model("no/such/model")
        ... except LegacyModelError as error:
        ...     print(error)
        no/such/model: there is no such file or folder.
    """


class Keras3ModelError(LegacyModelError):
    """A model that Keras 3 wrote was to be read as a legacy one.

    Args:
        path: str or path of the model.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path}: written by Keras 3: there is nothing legacy in it. Open it with "
            "keras.models.load_model."
        )


def check_version(version, path):
    """Raise `Keras3ModelError` if a file names a version of Keras such as `"3.8.0"`."""
    if version.startswith("3."):
        raise Keras3ModelError(path)


@contextlib.contextmanager
def corrupt(where):
    """Turn what reading unexpected values raises into a `LegacyModelError`.

    A net below the checks that name what they expect: a corrupt file has more ways
    to be wrong than anyone lists.

    Args:
        where: str or path, what is being read.
    """
    try:
        yield
    except LegacyModelError:
        raise
    except Exception as error:  # zlib and lzma, among others, have bases of their own
        raise LegacyModelError(
            f"{where}: corrupt, or not as tf.keras writes it: "
            f"{type(error).__name__}: {error}"
        ) from error


@contextlib.contextmanager
def entering(reader, where):
    """Yield what a context manager that reads a file yields, `corrupt` around entering.

    Errors of what is done within are not those of the file, and pass as they are.

    Args:
        reader: context manager.
        where: str or path, what is being read.
    """
    with contextlib.ExitStack() as stack:
        with corrupt(where):
            found = stack.enter_context(reader)
        yield found
