"""The one error that every unreadable or foreign file ends in."""

import contextlib

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
    except UNEXPECTED as error:
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
