"""Chooses the reader of a file by what is in it, whatever it is called."""

import contextlib
import pathlib

from keras_policies.legacy.base.errors import (
    Keras3ModelError,
    LegacyModelError,
    entering,
)
from keras_policies.legacy.readers import hdf5, keras_archive
from keras_policies.legacy.readers.saved_model import saved_model

# What Keras 3 leaves when a .keras file is unpacked into a folder.
KERAS_3_FOLDER = keras_archive.CONFIG, keras_archive.METADATA
EXPECTED = (
    "a SavedModel folder (with saved_model.pb), an .h5 file, or a .keras file, written "
    "by tf.keras 2.0 to 2.15 or by Keras 3"
)


def is_archive(path):
    """Return whether the file at `path` is a zip, as a `.keras` file is."""
    return _kind(pathlib.Path(path)) is keras_archive


def _kind(path):
    """Return the module that reads the file at `path`, by its first bytes."""
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except FileNotFoundError:
        raise LegacyModelError(_missing(path)) from None
    except OSError as error:
        raise LegacyModelError(f"{path}: cannot be read: {error}.") from error
    if start == hdf5.SIGNATURE:
        return hdf5
    if start.startswith(keras_archive.SIGNATURE):
        return keras_archive
    raise LegacyModelError(
        f"{path}: no model: it begins with {start!r}. Expected {EXPECTED}."
    )


def _missing(path):
    if path.with_name(path.name + ".index").is_file():
        return (
            f"{path}: a checkpoint, which holds weights alone, without a model. Build "
            f"the model in code, and call keras_policies.load_weights(model, "
            f"{str(path)!r})."
        )
    return f"{path}: there is no such file or folder."


@contextlib.contextmanager
def read(path):
    """Yield the `LegacyModel` at `path`; its weights can be read in this context.

    Args:
        path: str or `pathlib.Path` of a folder or file.

    Raises:
        Keras3ModelError: if Keras 3 wrote the model, and so reads it itself.
        LegacyModelError: if there is no model that we know, or it is corrupt.
    """
    path = pathlib.Path(path)
    with entering(_reader(path), path) as legacy:
        yield legacy


def _reader(path):
    if not path.is_dir():
        return _kind(path).read(path)
    if (path / saved_model.MODEL_FILE).is_file():
        return saved_model.read(path)
    if all((path / name).is_file() for name in KERAS_3_FOLDER):
        raise Keras3ModelError(path)
    raise LegacyModelError(
        f"{path}: a folder without {saved_model.MODEL_FILE}. Expected {EXPECTED}."
    )
