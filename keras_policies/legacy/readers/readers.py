"""Chooses the reader of a file by its content, whatever the file is called."""

import contextlib
import pathlib
from collections.abc import Iterator
from types import ModuleType

from keras_policies.legacy.base import remedies
from keras_policies.legacy.base.errors import (
    FilePath,
    Keras3ModelError,
    LegacyModelError,
    entering,
    located,
)
from keras_policies.legacy.base.model import LegacyModel
from keras_policies.legacy.readers import hdf5
from keras_policies.legacy.readers.keras_archive import keras_archive, members
from keras_policies.legacy.readers.saved_model import objects, saved_model

# What Keras 3 leaves when a .keras file is unpacked into a folder.
KERAS_3_FOLDER = members.CONFIG, members.METADATA
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
        return LegacyModelError(
            "a checkpoint, which holds weights without a model.",
            remedies.load_weights_into_code(path),
        )
    return LegacyModelError("there is no such file or folder.")


@contextlib.contextmanager
def read(path: FilePath) -> Iterator[LegacyModel]:
    """Yield the `LegacyModel` at `path`; its weights can be read in this context.

    Args:
        path: str or `pathlib.Path` of a folder or file.

    Raises:
        Keras3ModelError: if Keras 3 wrote the model, and so reads it itself.
        LegacyModelError: if it is no model of a known format, or is corrupt.
    """
    path = pathlib.Path(path)
    with located(path):
        reader = _reader(path)
    with entering(reader, path) as legacy:
        yield legacy


def _reader(path: pathlib.Path) -> contextlib.AbstractContextManager[LegacyModel]:
    if not path.is_dir():
        reader: contextlib.AbstractContextManager[LegacyModel] = _kind(path).read(path)
        return reader
    if (path / objects.MODEL_FILE).is_file():
        return saved_model.read(path)
    if all((path / name).is_file() for name in KERAS_3_FOLDER):
        raise Keras3ModelError
    raise LegacyModelError(
        f"a folder without {objects.MODEL_FILE}. Expected {EXPECTED}."
    )
