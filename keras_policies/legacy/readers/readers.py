"""Chooses the reader of a file by its content, whatever the file is called."""

import pathlib
from contextlib import AbstractContextManager
from types import ModuleType
from typing import TypeAlias

from keras_policies.legacy.base import errors, remedies
from keras_policies.legacy.base.errors import FilePath, LegacyModelError, located
from keras_policies.legacy.base.model import LegacyModel
from keras_policies.legacy.readers import hdf5
from keras_policies.legacy.readers.keras_archive import keras_archive
from keras_policies.legacy.readers.saved_model import objects, saved_model

Reader: TypeAlias = AbstractContextManager[LegacyModel]
# What Keras 3 leaves when a .keras file is unpacked into a folder.
KERAS_3_FOLDER = keras_archive.CONFIG, keras_archive.METADATA
EXPECTED = (
    "a SavedModel folder (with saved_model.pb), an .h5 file, or a .keras file, written "
    "by tf.keras 2.0 to 2.15 or by Keras 3"
)


def is_archive(path: FilePath) -> bool:
    """Return whether the file at `path` is a zip, as a `.keras` file is."""
    with located(path):
        return _kind(pathlib.Path(path)) is keras_archive


def _kind(path: pathlib.Path) -> ModuleType:
    """Return the module that reads the file at `path`, by its first bytes."""
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except FileNotFoundError:
        raise _missing(path) from None
    except OSError as error:
        raise LegacyModelError(f"cannot be read: {error}.") from error
    if start == hdf5.SIGNATURE:
        return hdf5
    if start.startswith(keras_archive.SIGNATURE):
        return keras_archive
    raise LegacyModelError(f"no model: it begins with {start!r}. Expected {EXPECTED}.")


def _missing(path: pathlib.Path) -> LegacyModelError:
    if path.with_name(path.name + ".index").is_file():
        remedy = remedies.load_weights_into_code(path)
        reason = "a checkpoint, which holds weights without a model."
        return LegacyModelError(reason, remedy)
    return LegacyModelError("there is no such file or folder.")


def read(path: FilePath) -> Reader:
    """Return a context of the `LegacyModel` at `path`, in which it can be read.

    The errors are LegacyModelError, and Keras3ModelError for what Keras 3 wrote.
    """
    path = pathlib.Path(path)
    with located(path):
        return errors.entering(_reader(path), path)


def _reader(path: pathlib.Path) -> Reader:
    if not path.is_dir():
        reader: Reader = _kind(path).read(path)
        return reader
    if (path / objects.MODEL_FILE).is_file():
        return saved_model.read(path)
    if all((path / name).is_file() for name in KERAS_3_FOLDER):
        raise errors.Keras3ModelError
    reason = f"a folder without {objects.MODEL_FILE}. Expected {EXPECTED}."
    raise LegacyModelError(reason)
