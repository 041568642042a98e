"""Recognizes a path to one part of a model, and names the path that was meant."""

import contextlib
import pathlib

from keras_policies.legacy.base import remedies
from keras_policies.legacy.base.errors import FilePath, LegacyModelError

MODEL, VARIABLES, LIST = "saved_model.pb", "variables", "checkpoint"
INDEX, DATA = ".index", ".data-"


def check(path: FilePath, weights: bool = False) -> None:
    """Raise an error that names the right path if `path` is only a part of a model.

    `weights` says that weights without a model are enough.
    """
    with contextlib.suppress(PermissionError):  # opening it says so
        _check(pathlib.Path(path), weights)


def is_prefix(path: pathlib.Path) -> bool:
    """Return whether a path is a checkpoint's, which may be called `checkpoint`."""
    return path.with_name(f"{path.name}{INDEX}").is_file()


def _check(path: pathlib.Path, weights: bool) -> None:
    folder = _saved_model_around(path)
    if folder is not None:
        remedy = f"Pass the folder {str(folder)!r}."
        raise LegacyModelError("a part of a SavedModel.", remedy, path=path)
    prefixes = [path] if is_prefix(path) else _prefixes(path)
    if prefixes and not (weights and prefixes == [path]):
        named = " or ".join(repr(str(prefix)) for prefix in prefixes)
        into_code = remedies.load_weights_into_code(prefixes[0])
        raise LegacyModelError(
            "a part of a checkpoint, which holds weights without a model, and is "
            "named without an ending:",
            f"did you mean {named}?" if weights else into_code,
            path=path,
        )


def _saved_model_around(path: pathlib.Path) -> pathlib.Path | None:
    """Return the folder of the SavedModel that a path is a part of, or None."""
    if path.name == MODEL and path.is_file():
        return path.parent
    inside = path.name == VARIABLES and path.is_dir()
    return path.parent if inside and (path.parent / MODEL).is_file() else None


def _prefixes(path: pathlib.Path) -> list[pathlib.Path]:
    """Return the checkpoints that a path is a part of, or that lie in it."""
    if path.is_dir() and not (path / MODEL).is_file():
        is_model = (path / VARIABLES / (VARIABLES + INDEX)).is_file()
        return [] if is_model else _in_folder(path)
    if not path.is_file():
        return []
    if path.name == LIST:
        return _in_folder(path.parent)
    name = path.name.removesuffix(INDEX).partition(DATA)[0]
    prefix = path.with_name(name)
    has_index = prefix.with_name(name + INDEX).is_file()
    return [prefix] if name != path.name and has_index else []


def _in_folder(folder: pathlib.Path) -> list[pathlib.Path]:
    return [path.with_suffix("") for path in sorted(folder.glob(f"*{INDEX}"))]
