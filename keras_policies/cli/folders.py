"""Finds the models for the paths, folders and globs on a command line."""

import contextlib
import glob
import os
import pathlib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from keras_policies._common import files
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.readers import archives
from keras_policies.legacy.readers.fetching import HUB
from keras_policies.legacy.readers.sources import ENDINGS, is_saved_model, models_in


def is_collection(path: str) -> bool:
    """Return whether a path is a glob, or a folder that is not a SavedModel."""
    if not os.path.lexists(path):
        return glob.has_magic(path)
    return os.path.isdir(path) and not is_saved_model(path)


def models(paths: Iterable[str], recursive: bool) -> list[str]:
    """Return the paths of models without duplicates: given ones, and those in folders.

    Paths may not exist. A folder or glob without models, or an unreadable folder, is
    returned itself; opening it later gives the reason. With `recursive`, inner folders
    are also searched, but not those of a SavedModel. A single model in an inner folder
    is found anyway; if there are several, raise LegacyModelError.
    """
    found: dict[object, str] = {}
    for path in paths:
        for model in _in(path, recursive):
            found.setdefault(_identity(model), model)
    return list(found.values())


def _identity(path: str) -> object:
    """Return what is equal for two spellings of one path, such as `a/../b` and `./B`.

    Two names of one file, which links can give it, are two models.
    """
    folder, name = os.path.split(os.path.abspath(path))
    try:
        places = [os.stat(each) for each in (folder, path)]
    except OSError:  # it does not exist, or is on the Hub
        return path
    numbers = ((place.st_dev, place.st_ino) for place in places)
    return _folded(name), *numbers


def _folded(name: str) -> str:
    """Return what is equal for two names that some file systems take for one."""
    return unicodedata.normalize("NFC", name).casefold()


def _in(path: str, recursive: bool) -> list[str]:
    if not is_collection(path):
        return [path]
    if os.path.isdir(path):
        return [*_in_folder(path, recursive)] or _none_in(path, recursive)
    return models(sorted(glob.glob(path, recursive=True)), recursive) or [path]


def _none_in(folder: str, recursive: bool) -> list[str]:
    below = [] if recursive else [*_in_folder(folder, recursive=True)]
    if len(below) == 1:
        return below
    if below:
        raise LegacyModelError(
            f"no model directly in it; {len(below)} below.",
            "Add --recursive.",
            path=folder,
            code="KP001",
        )
    return [folder]


def _in_folder(folder: str, recursive: bool) -> Iterator[str]:
    """Yield the models in a folder, and its inner folders that cannot be read."""
    unreadable: list[str] = []
    yield from models_in(folder, float("inf") if recursive else 0, unreadable)
    yield from unreadable


def below_common(paths: Sequence[str]) -> tuple[str, list[str]]:
    """Return the deepest folder that contains all paths, and the paths below it.

    Example:
        >>> below_common(["zoo/model.h5", "zoo/b.keras"])
        ('zoo', ['model.h5', 'b.keras'])
    """
    with contextlib.suppress(ValueError):  # absolute paths mixed with relative ones
        folder = os.path.commonpath([os.path.dirname(path) for path in paths])
        return folder, [os.path.relpath(path, folder or ".") for path in paths]
    return "", [*paths]


def destinations(
    base: str, sources: Sequence[str], output: pathlib.Path, ending: str = ".keras"
) -> list[pathlib.Path]:
    """Return the path of each new file: in `output`, like the source below `base`.

    `ending` replaces the ending of the source. If names in a folder differ only in the
    ending, they keep it: `model.h5.keras`. Raise LegacyModelError if a model is not
    below `base`.

    Example:
        >>> found = destinations("zoo", ["zoo/a/model.h5"], pathlib.Path("new"))
        >>> [path.as_posix() for path in found]
        ['new/a/model.keras']
    """
    return [output / f"{_below(base, source)}{ending}" for source in sources]


def _below(base: str, source: str) -> str:
    path = os.path.abspath(source.removeprefix(HUB))
    try:
        relative = os.path.relpath(path, os.path.abspath(base))
    except ValueError:  # on another drive of Windows
        relative = os.pardir
    if relative.split(os.sep)[0] == os.pardir:
        raise LegacyModelError(
            f"it is not below {base!r}.",
            "Pass a --base that contains it.",
            path=source,
            code="KP001",
        )
    endings = (*archives.ENDINGS, *ENDINGS)
    ending = next((ending for ending in endings if path.lower().endswith(ending)), "")
    stem = path[: len(path) - len(ending)]
    twins = {stem, *(stem + other for other in endings)} - {path}
    own = _identity(path)  # where case does not matter, a.h5 is a.H5
    has_twin = ending and any(
        os.path.exists(twin) and _identity(twin) != own for twin in twins
    )
    return relative if has_twin else relative[: len(relative) - len(ending)]


def sharing(sources: Sequence[str], new: Sequence[pathlib.Path]) -> list[str]:
    """Return for each new file the earlier source whose new file is the same, or "".

    Where the folder ignores case, `a.keras` is `A.keras`.
    """
    first: dict[str, tuple[str, pathlib.Path]] = {}
    found = []
    for source, path in zip(sources, new, strict=True):
        other, its = first.setdefault(_folded(str(path)), (source, path))
        is_one = other != source and (its == path or files.ignores_case(path.parent))
        found.append(other if is_one else "")
    return found


def common_folder(paths: Sequence[str]) -> str:
    """Return the deepest folder that contains all models given on a command line."""
    folders = [_folder(path) for path in paths]
    try:
        return os.path.commonpath(folders)
    except ValueError as error:  # Windows
        drives = sorted({os.path.splitdrive(folder)[0] for folder in folders})
        raise LegacyModelError(
            f"models on several drives ({', '.join(drives)}): no folder contains them "
            "all, so their new files have no common place.",
            "Run one command for each drive.",
            code="KP108",
        ) from error


def _folder(path: str) -> str:
    """Return the folder that contains the models of a path; a glob is cut off."""
    if os.path.isdir(path) and is_collection(path):
        return os.path.abspath(path)
    parts = pathlib.Path(os.path.abspath(path.removeprefix(HUB))).parts
    fixed = next((i for i, part in enumerate(parts) if glob.has_magic(part)), -1)
    return os.path.join(*parts[: fixed if is_collection(path) else -1])
