"""Chooses the reader of a file by what is in it, whatever it is called."""

import contextlib
import pathlib

from keras_policies.legacy import guarded_hdf5, hdf5, keras_archive, saved_model
from keras_policies.legacy.errors import LegacyModelError, corrupt, entering

KERAS_3 = "3."
# What Keras 3 leaves when a .keras file is unpacked into a folder.
KERAS_3_FOLDER = keras_archive.CONFIG, keras_archive.METADATA
EXPECTED = (
    "a SavedModel folder (with saved_model.pb), an .h5 file, or a .keras file, written "
    "by tf.keras 2.0 to 2.15 or by Keras 3"
)


def is_keras_3(path):
    """Return whether Keras 3 itself wrote the model at `path`, and so reads it.

    Raises:
        LegacyModelError: if there is nothing, or no model that we know.
    """
    path = pathlib.Path(path)
    with corrupt(path):
        return _is_keras_3(path)


def _is_keras_3(path):
    if path.is_dir():
        if (path / saved_model.MODEL_FILE).is_file():
            return False
        return all((path / name).is_file() for name in KERAS_3_FOLDER)
    kind = _kind(path)
    if kind is keras_archive:
        with keras_archive.open_archive(path) as archive:
            return keras_archive.keras_version(archive).startswith(KERAS_3)
    with guarded_hdf5.open_file(path, str(path)) as file:
        version = guarded_hdf5.attribute(file, "keras_version") or ""
    return version.startswith(KERAS_3)


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
        LegacyModelError: if there is no legacy model, or it is corrupt.
    """
    path = pathlib.Path(path)
    if path.is_dir():
        if not (path / saved_model.MODEL_FILE).is_file():
            raise LegacyModelError(
                f"{path}: a folder without {saved_model.MODEL_FILE}. Expected "
                f"{EXPECTED}."
            )
        kind = saved_model
    else:
        kind = _kind(path)
    with entering(kind.read(path), path) as legacy:
        yield legacy
