"""Finds the models that paths, folders and globs on a command line mean."""

import glob
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence

from keras_policies.legacy.readers.readers import MODEL_FILE

ENDINGS = ".h5", ".hdf5", ".keras"


def is_collection(path: str) -> bool:
    """Return whether a path is a glob, or a folder that is no SavedModel."""
    if not os.path.lexists(path):
        return glob.has_magic(path)
    return os.path.isdir(path) and not _is_saved_model(path)


def models(paths: Iterable[str], recursive: bool) -> list[str]:
    """Return the paths of models, each once: those given, and those in folders.

    A folder or a glob without models is returned itself: reading it says what it is.

    Args:
        paths: paths of models, which may not exist; folders with models; globs.
        recursive: whether to look into the folders in a folder, too. A SavedModel is a
            model, and never looked into.
    """
    found = (model for path in paths for model in _in(path, recursive))
    return list(dict.fromkeys(found))


def _in(path: str, recursive: bool) -> list[str]:
    if not is_collection(path):
        return [path]
    if os.path.isdir(path):
        return [*_in_folder(path, recursive)] or [path]
    return models(sorted(glob.glob(path, recursive=True)), recursive) or [path]


def _in_folder(folder: str, recursive: bool) -> Iterator[str]:
    for here, folders, files in os.walk(folder):
        whole = {name for name in folders if _is_saved_model(os.path.join(here, name))}
        named = whole.union(name for name in files if name.endswith(ENDINGS))
        yield from (os.path.join(here, name) for name in sorted(named))
        folders[:] = sorted({*folders} - whole) if recursive else []


def _is_saved_model(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, MODEL_FILE))


def destinations(
    paths: Sequence[str], sources: Sequence[str], output: pathlib.Path
) -> list[pathlib.Path]:
    """Return where each model is written, as it lies below the folder common to all.

    Models that differ only in their endings keep them: `model.h5.keras`.

    Args:
        paths: those on the command line, which decide the common folder.
        sources: the models that `models` found in them.
        output: the folder to write to.

    Example:
        >>> found = ["zoo/a/model.h5", "zoo/b.keras"]
        >>> new = destinations(found, found, pathlib.Path("new"))
        >>> [path.as_posix() for path in new]
        ['new/a/model.keras', 'new/b.keras']
    """
    common = os.path.commonpath([_folder(path) for path in paths])
    below = [os.path.relpath(os.path.abspath(source), common) for source in sources]
    plain = [_without_ending(path) for path in below]
    return [
        output / f"{path if plain.count(short) > 1 else short}.keras"
        for path, short in zip(below, plain, strict=True)
    ]


def _folder(path: str) -> str:
    """Return the folder that models of a path lie in: of a glob, the part before it."""
    if os.path.isdir(path) and is_collection(path):
        return os.path.abspath(path)
    parts = pathlib.Path(os.path.abspath(path)).parts
    fixed = next((i for i, part in enumerate(parts) if glob.has_magic(part)), -1)
    return os.path.join(*parts[: fixed if is_collection(path) else -1])


def _without_ending(path: str) -> str:
    stem, ending = os.path.splitext(path)
    return stem if ending in ENDINGS else path
