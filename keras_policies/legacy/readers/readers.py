"""Chooses the reader of a file by its content, whatever the file is called."""

import importlib
import pathlib
from contextlib import AbstractContextManager
from typing import TypeAlias

from keras_policies.legacy.base import errors, remedies
from keras_policies.legacy.base.errors import FilePath, LegacyModelError, located
from keras_policies.legacy.base.model import LegacyModel
from keras_policies.legacy.readers import near_misses

Reader: TypeAlias = AbstractContextManager[LegacyModel]
# Readers, each imported when it is needed: they import h5py or protobuf, in 0.1 s.
HDF5, ARCHIVE, FOLDER = "hdf5", "keras_archive.keras_archive", "saved_model.saved_model"
SIGNATURES = {b"\x89HDF\r\n\x1a\n": HDF5, b"PK\x03\x04": ARCHIVE}
MODEL_FILE = "saved_model.pb"
# What Keras 3 leaves when a .keras file is unpacked into a folder.
KERAS_3_FOLDER = "config.json", "metadata.json"
EXPECTED = (
    "a SavedModel folder (with saved_model.pb), an .h5 file, or a .keras file, written "
    "by tf.keras 2.0 to 2.15 or by Keras 1 or 2"
)


def is_archive(path: FilePath) -> bool:
    """Return whether the file at `path` is a zip, as a `.keras` file is."""
    with located(path):
        return _kind(pathlib.Path(path)) == ARCHIVE


def _kind(path: pathlib.Path) -> str:
    """Return the name of the reader of the file at `path`, by its first bytes."""
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except FileNotFoundError:
        raise _missing(path) from None
    except OSError as error:
        raise LegacyModelError(f"cannot be read: {error}.") from error
    for signature, reader in SIGNATURES.items():
        if start.startswith(signature):
            return reader
    found = f"it begins with {start!r}" if start else "the file has zero bytes"
    raise LegacyModelError(f"no model: {found}. Expected {EXPECTED}.")


def _missing(path: pathlib.Path) -> LegacyModelError:
    if path.with_name(path.name + ".index").is_file():
        remedy = remedies.load_weights_into_code(path)
        reason = "a checkpoint, which holds weights without a model."
        return LegacyModelError(reason, remedy)
    return LegacyModelError("there is no such file or folder.")


def check(path: FilePath) -> None:
    """Raise if there is no model at `path`, as far as its first bytes tell."""
    near_misses.check(path)
    path = pathlib.Path(path)
    with located(path):
        _reader_name(path)


def read(path: FilePath) -> Reader:
    """Return a context of the `LegacyModel` at `path`, in which it can be read.

    The errors are LegacyModelError, and Keras3ModelError for what Keras 3 wrote.
    """
    path = pathlib.Path(path)
    with located(path):
        return errors.entering(_reader(path), path)


def _reader(path: pathlib.Path) -> Reader:
    name = f"keras_policies.legacy.readers.{_reader_name(path)}"
    found: Reader = importlib.import_module(name).read(path)
    return found


def _reader_name(path: pathlib.Path) -> str:
    try:
        return _folder_kind(path) if path.is_dir() else _kind(path)
    except OSError as error:  # a folder that may not be looked into
        raise LegacyModelError(f"cannot be read: {error}.") from error


def _folder_kind(path: pathlib.Path) -> str:
    """Return the name of the reader of a folder."""
    if (path / MODEL_FILE).is_file():
        return FOLDER
    if all((path / name).is_file() for name in KERAS_3_FOLDER):
        raise errors.Keras3ModelError
    reason = f"a folder without {MODEL_FILE}. Expected {EXPECTED}."
    raise LegacyModelError(reason)
