"""Lists what a search through folders passes over, by kind, with what to do."""

import contextlib
import os
import pathlib
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from keras_policies.cli import folders
from keras_policies.cli.tasks import PASSED_OVER, Problem, Result, Task
from keras_policies.legacy.base import hints
from keras_policies.legacy.guards import paths
from keras_policies.legacy.readers import archives, readers, sources

ARCHITECTURE = b'{"class_name"'
START = 64  # bytes of a file that are read
TF_LITE_ENDING = ".tflite"
DEEPEST = 300  # folders in folders that are searched


class Kind(NamedTuple):
    """What something in a folder is, and the code of what to do with it."""

    text: str
    code: str


TF_LITE = Kind(
    "a TensorFlow Lite model. Pass the model that it was converted from", "KP102"
)
KERAS_3 = Kind("a folder of Keras 3. Open it with keras.models.load_model", "KP103")
POINTER = Kind("a Git LFS pointer. Run git lfs pull in the clone", "KP106")
PACKED = Kind("an archive. Pass its path, or a glob that matches it", "KP102")
WITHOUT_WEIGHTS = Kind("an architecture. Convert it alone, with --weights", "KP106")
EMPTY = Kind("a folder without a model", "KP102")
INNER = Kind("a folder with models in it. Add --recursive", "KP001")


class Search(NamedTuple):
    """A search through folders: what it found, and whether it looked in inner ones."""

    models: Collection[str]  # absolute paths
    above: Collection[str]  # the folders around them
    recursive: bool


def results(
    given: Sequence[str], recursive: bool, todo: Sequence[Task]
) -> list[Result]:
    """Return a result for each file or folder that is no model, below given folders."""
    if not todo:
        return []
    models = {os.path.abspath(task.path) for task in todo}
    above = {str(each) for model in models for each in pathlib.Path(model).parents}
    search = Search(models, above, recursive)
    found = {
        path: kind
        for folder in given
        if os.path.isdir(folder) and folders.is_collection(folder)
        if os.path.abspath(folder) not in models
        for path, kind in _in_folder(folder, search)
    }
    keys = dict.fromkeys(todo[0].KEYS)
    return [
        Result(path, PASSED_OVER, keys, Problem(path, f"{kind.text}.", kind.code))
        for path, kind in found.items()
    ]


def _in_folder(folder: str, search: Search) -> Iterator[tuple[str, Kind]]:
    """Yield what is no model in a folder; of an inner one with nothing, the folder."""
    entries: list[os.DirEntry[str]] = []
    if folder.count(os.sep) < DEEPEST:
        with contextlib.suppress(OSError):  # the search names it
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    yield from _checkpoints(folder)
    for entry in entries:
        if os.path.abspath(entry.path) in search.models or entry.name.startswith("."):
            continue
        if os.path.isfile(entry.path):  # the entry itself raises for a link to itself
            if kind := _kind(pathlib.Path(entry.path)):
                yield entry.path, kind
        elif entry.is_dir(follow_symlinks=False) and entry.name != sources.BESIDE:
            yield from _in_inner(entry.path, search)


def _in_inner(folder: str, search: Search) -> Iterator[tuple[str, Kind]]:
    has_model = os.path.abspath(folder) in search.above
    if sources.is_keras_3(pathlib.Path(folder)):
        yield folder, KERAS_3
    elif search.recursive:
        inside = [*_in_folder(folder, search)]
        is_alone = all(kind == EMPTY for _, kind in inside) and not has_model
        yield from [(folder, EMPTY)] if is_alone else inside
    elif not has_model:
        has_some = any(True for _ in sources.models_in(folder, float("inf")))
        yield folder, INNER if has_some else EMPTY


def _checkpoints(folder: str) -> Iterator[tuple[str, Kind]]:
    """Yield the latest checkpoint in a folder, all if it is not known."""
    latest = sources.latest_checkpoint(pathlib.Path(folder))
    all_of_them = sources.checkpoints_beside(pathlib.Path(folder))
    for prefix in [latest] if latest else all_of_them:
        hint = str(hints.load_weights_into_code(prefix))
        yield str(prefix), Kind(f"a checkpoint. {hint.rstrip('.')}", "KP104")


def _kind(path: pathlib.Path) -> Kind | None:
    """Return what a file is that is no model; None for those that nobody misses."""
    name = path.name.lower()
    if not name.endswith((TF_LITE_ENDING, ".json", *archives.ENDINGS)):
        return None
    try:
        with path.open("rb") as file:
            start = file.read(START)
    except OSError:
        return None
    if start.startswith(paths.LFS_START):
        return POINTER
    if start[4:8] == readers.TF_LITE or name.endswith(TF_LITE_ENDING):
        return TF_LITE
    if name.endswith(archives.ENDINGS):
        return PACKED
    return WITHOUT_WEIGHTS if start.startswith(ARCHITECTURE) else None
