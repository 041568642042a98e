"""Finds the model that a path means: in an archive, in a folder, or on the hub."""

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator

from keras_policies.legacy.base.errors import FilePath, LegacyModelError, located
from keras_policies.legacy.readers import archives, hub

MODEL_FILE = "saved_model.pb"
# What Keras 3 leaves when a .keras file is unpacked into a folder.
KERAS_3_FOLDER = "config.json", "metadata.json"
ENDINGS = ".h5", ".hdf5", ".keras"
BESIDE = "__MACOSX"  # where macOS puts its own files in a zip
NAMED = 3  # models named in an error


def is_saved_model(folder: FilePath) -> bool:
    """Return whether a folder is a SavedModel."""
    return os.path.isfile(os.path.join(folder, MODEL_FILE))


def is_keras_3(folder: pathlib.Path) -> bool:
    """Return whether a folder is a `.keras` file of Keras 3, unpacked."""
    return all((folder / name).is_file() for name in KERAS_3_FOLDER)


def is_hub(path: FilePath) -> bool:
    """Return whether a path is one on the Hugging Face Hub."""
    return str(path).startswith(hub.SCHEME)


def models_in(
    folder: str, levels: float, unreadable: list[str] | None = None
) -> Iterator[str]:
    """Yield the paths of the models in a folder, in a fixed order.

    Args:
        folder: which is no model itself.
        levels: how many levels of folders to look into; 0 for the folder alone.
        unreadable: gets the folders that may not be read.
    """
    refused: list[str] = [] if unreadable is None else unreadable
    walk = os.walk(folder, onerror=lambda error: refused.append(error.filename))
    for here, folders, files in walk:
        depth = 0 if here == folder else os.path.relpath(here, folder).count(os.sep) + 1
        whole = {name for name in folders if is_saved_model(os.path.join(here, name))}
        named = whole.union(name for name in files if name.endswith(ENDINGS))
        shown = sorted(name for name in named if not name.startswith("."))
        yield from (os.path.join(here, name) for name in shown)
        below = {*folders} - whole - {BESIDE}
        folders[:] = sorted(below) if depth < levels else []


def checkpoints_in(folder: pathlib.Path) -> list[str]:
    """Return the checkpoints in a folder, but for those of SavedModels."""
    indices = sorted(folder.rglob("*.index"))
    return [str(p.with_suffix("")) for p in indices if not is_saved_model(p.parents[1])]


@contextlib.contextmanager
def local(path: FilePath, weights: bool = False) -> Iterator[pathlib.Path]:
    """Yield the path of the model that `path` means, which may be unpacked for it.

    Args:
        path: of a model, of a folder with one, of an archive; or one on the hub.
        weights: whether a checkpoint in an archive is meant, too.

    Raises:
        LegacyModelError: if an archive or a repository has no model or several. An
            error about a file in them names it below `path`.
    """
    with located(path):
        if is_hub(path):
            with _in_new_folder(path) as folder:
                hub.download(str(path), folder, weights)
                yield _only_model(folder, weights)
        elif is_archive(pathlib.Path(path)):
            with _in_new_folder(path) as folder:
                archives.unpack(pathlib.Path(path), folder)
                yield _only_model(folder, weights)
        else:
            yield one_level_down(pathlib.Path(path))


def is_archive(path: pathlib.Path) -> bool:
    """Return whether a path is a packed folder, and not a model."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            start = file.read(len(archives.ZIP))
    except OSError:  # opening it says so
        return False
    if start.startswith(archives.GZIP):
        return True
    return start == archives.ZIP and not archives.is_keras_file(path)


def one_level_down(path: pathlib.Path) -> pathlib.Path:
    """Return a path, or that of the only model in a folder or one level below."""
    with contextlib.suppress(PermissionError):  # opening it says so
        if path.is_dir() and not is_saved_model(path) and not is_keras_3(path):
            found = list(models_in(str(path), levels=1))
            if len(found) == 1:
                return pathlib.Path(found[0])
    return path


def check_folder(path: pathlib.Path) -> None:
    """Raise if a folder, which is no model itself, has several models."""
    found = [] if is_saved_model(path) else list(models_in(str(path), levels=1))
    if len(found) > 1:
        remedy = "Pass the path of one; convert --output-dir DIR converts all."
        raise _several(found, path, remedy)


def _only_model(folder: pathlib.Path, weights: bool) -> pathlib.Path:
    if is_saved_model(folder) or is_keras_3(folder):
        return folder
    found = list(models_in(str(folder), levels=float("inf")))
    found += checkpoints_in(folder) if weights else []
    if len(found) > 1:
        raise _several(found, folder, "Unpack it, and pass the path of one.")
    if not found:
        raise LegacyModelError(
            f"no model in it: no {MODEL_FILE}, and no file that ends in "
            f"{', '.join(ENDINGS)}."
        )
    return pathlib.Path(found[0])


def _several(found: list[str], folder: pathlib.Path, remedy: str) -> LegacyModelError:
    named = ", ".join(repr(os.path.relpath(each, folder)) for each in found[:NAMED])
    more = ", …" if len(found) > NAMED else ""
    reason = f"{len(found)} models in it, expected one: {named}{more}."
    return LegacyModelError(reason, remedy)


@contextlib.contextmanager
def _in_new_folder(path: FilePath) -> Iterator[pathlib.Path]:
    """Yield a folder for as long as the context is open; errors name `path` for it."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            yield pathlib.Path(folder)
        except LegacyModelError as error:
            if error.path is not None and str(error.path).startswith(folder):
                error.path = str(path) + str(error.path).removeprefix(folder)
            raise
