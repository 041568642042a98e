"""Tells which path was meant by one that is a part of a model, or a folder of it."""

import pathlib

from keras_policies.legacy.base.errors import LegacyModelError

MODEL, VARIABLES, LIST = "saved_model.pb", "variables", "checkpoint"
INDEX, DATA = ".index", ".data-"


def check(path, weights=False):
    """Raise if a path is a part of what can be opened, naming what can.

    Args:
        path: str or path.
        weights: bool, whether weights alone are looked for.

    Raises:
        LegacyModelError: if so.
    """
    path = pathlib.Path(path)
    folder = _saved_model_around(path)
    if folder is not None:
        raise LegacyModelError(
            f"{path}: a part of a SavedModel: pass the folder {str(folder)!r}."
        )
    prefixes = _prefixes(path)
    if prefixes:
        named = " or ".join(repr(str(prefix)) for prefix in prefixes)
        raise LegacyModelError(
            f"{path}: a part of a checkpoint, which holds weights alone, and goes by "
            f"its name without an ending: "
            + (
                f"did you mean {named}?"
                if weights
                else "build the model in code, and call "
                f"keras_policies.load_weights(model, {str(prefixes[0])!r})."
            )
        )


def _saved_model_around(path):
    """Return the folder of the SavedModel that a path is a part of, or None."""
    if path.name == MODEL and path.is_file():
        return path.parent
    inside = path.name == VARIABLES and path.is_dir()
    return path.parent if inside and (path.parent / MODEL).is_file() else None


def _prefixes(path):
    """Return the checkpoints that a path is a part of, or that lie in it."""
    if path.is_dir() and not (path / MODEL).is_file():
        if (path / VARIABLES / (VARIABLES + INDEX)).is_file():
            return []
        return _in_folder(path)
    if not path.is_file():
        return []
    if path.name == LIST:
        return _in_folder(path.parent)
    name = path.name.removesuffix(INDEX).partition(DATA)[0]
    prefix = path.with_name(name)
    has_index = prefix.with_name(name + INDEX).is_file()
    return [prefix] if name != path.name and has_index else []


def _in_folder(folder):
    return [path.with_suffix("") for path in sorted(folder.glob(f"*{INDEX}"))]
