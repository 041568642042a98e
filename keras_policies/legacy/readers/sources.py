"""Finds the model that a path means: in an archive, in a folder, or on the Hub.

The error for a path to a part of a model names the right path. `hf://user/model` is
downloaded from the Hugging Face Hub, as in Keras 3.
"""

import contextlib
import json
import os
import pathlib
import re
from collections.abc import Iterator

from keras_policies._common import files
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.errors import FilePath, LegacyModelError, located
from keras_policies.legacy.readers import archives, fetching
from keras_policies.legacy.readers.fetching import HUB

MODEL_FILE = "saved_model.pb"
# Files in an unpacked .keras file of Keras 3.
KERAS_3_FOLDER = "config.json", "metadata.json"
ENDINGS = ".h5", ".hdf5", ".keras"
BESIDE = "__MACOSX"  # where macOS puts its own files in a zip
NAMED = 3  # models named in an error
VARIABLES, LIST = "variables", "checkpoint"
LATEST, LIST_CHARACTERS = "model_checkpoint_path: ", 4096  # the first line of LIST
INDEX, DATA = ".index", ".data-"
ORBAX_STEP = "_CHECKPOINT_METADATA"  # in the folder of each step
# The files that are downloaded from a repository.
PATTERNS = [
    *("*.[hH]5", "*.[hH][dD][fF]5", "*.keras"),
    *("*saved_model.pb", "*keras_metadata.pb", "*variables/*", "*assets/*"),
    *("config.json", "metadata.json"),
]
CHECKPOINT = ["*.index", "*.data-*"]


def is_saved_model(folder: FilePath) -> bool:
    """Return whether a folder is a SavedModel."""
    return os.path.isfile(os.path.join(folder, MODEL_FILE))


def is_keras_3(folder: pathlib.Path) -> bool:
    """Return whether Keras 3 wrote a folder: an unpacked `.keras` file, or Orbax."""
    is_unpacked = all((folder / name).is_file() for name in KERAS_3_FOLDER)
    return is_unpacked or is_orbax(folder)


def is_orbax(folder: pathlib.Path) -> bool:
    """Return whether a folder is one of `keras.callbacks.OrbaxCheckpoint`.

    It has a folder for each saved step, whose name is the step's number.
    """
    return any(path.parent.name.isdigit() for path in folder.glob(f"*/{ORBAX_STEP}"))


def models_in(
    folder: str, levels: float, unreadable: list[str] | None = None
) -> Iterator[str]:
    """Yield the paths of the models in a folder, in a fixed order.

    Search `levels` levels below it, 0 for the folder alone. Folders that cannot be read
    are appended to `unreadable`.
    """
    refused: list[str] = [] if unreadable is None else unreadable
    walk = os.walk(folder, onerror=lambda error: refused.append(error.filename))
    for here, folders, names in walk:
        depth = 0 if here == folder else os.path.relpath(here, folder).count(os.sep) + 1
        models = {name for name in folders if is_saved_model(os.path.join(here, name))}
        named = models.union(name for name in names if name.lower().endswith(ENDINGS))
        shown = sorted(name for name in named if not name.startswith("."))
        yield from (os.path.join(here, name) for name in shown)
        below = {*folders} - models - {BESIDE}
        folders[:] = sorted(below) if depth < levels else []


def checkpoints_in(folder: pathlib.Path) -> list[str]:
    """Return the checkpoints in a folder, except those of SavedModels."""
    indices = sorted(folder.rglob("*.index"))
    return [str(p.with_suffix("")) for p in indices if not is_saved_model(p.parents[1])]


@contextlib.contextmanager
def local(path: FilePath, weights: bool = False) -> Iterator[pathlib.Path]:
    """Yield the path of the model that `path` means, downloaded or unpacked if needed.

    `path` is that of a model, of a folder with one, of an archive, or one on the Hub;
    there must be one model in it. With `weights`, checkpoints in archives also count.
    """
    with fetching.fetched(path) as path, located(path):
        if fetching.is_hub(path):
            with fetching.in_new_folder(path) as folder:
                _download(str(path), folder, weights)
                yield _only_model(folder, weights)
        elif is_archive(pathlib.Path(path)):
            with fetching.in_new_folder(path) as folder:
                archives.unpack(pathlib.Path(path), folder)
                yield _only_model(folder, weights)
        else:
            yield one_level_down(pathlib.Path(path))


def is_archive(path: pathlib.Path) -> bool:
    """Return whether a path is an archive of a model, not a `.keras` file."""
    if not os.path.isfile(path):
        return False
    try:
        with path.open("rb") as file:
            start = file.read(len(archives.XZ))
    except OSError:  # the reader raises it
        return False
    if archives.is_packed(start):
        return True
    return start.startswith(archives.ZIP) and not archives.is_keras_file(path)


def one_level_down(path: pathlib.Path) -> pathlib.Path:
    """Return a path, or that of the only model in a folder or one level below."""
    with contextlib.suppress(PermissionError):  # the reader raises it
        is_folder = os.path.isdir(path) and not is_saved_model(path)
        if is_folder and not is_keras_3(path):
            models = list(models_in(str(path), levels=1))
            if len(models) == 1:
                return pathlib.Path(models[0])
    return path


def check_folder(path: pathlib.Path) -> None:
    """Raise if a folder that is not a model has several models in it."""
    models = [] if is_saved_model(path) else list(models_in(str(path), levels=1))
    if len(models) > 1:
        hint = "Pass the path of one; convert --output-dir DIR converts all."
        raise _several(models, path, hint)


def _only_model(folder: pathlib.Path, weights: bool) -> pathlib.Path:
    if is_saved_model(folder) or is_keras_3(folder):
        return folder
    models = list(models_in(str(folder), levels=float("inf")))
    models += checkpoints_in(folder) if weights else []
    if len(models) > 1:
        raise _several(models, folder, "Unpack it, and pass the path of one.")
    if not models:
        raise LegacyModelError(
            f"no model in it: no {MODEL_FILE}, and no file that ends in "
            f"{', '.join(ENDINGS)}.",
            code="KP102",
        )
    return pathlib.Path(models[0])


def _several(models: list[str], folder: pathlib.Path, hint: str) -> LegacyModelError:
    named = ", ".join(repr(os.path.relpath(each, folder)) for each in models[:NAMED])
    more = ", …" if len(models) > NAMED else ""
    reason = f"{len(models)} models in it, expected one: {named}{more}."
    return LegacyModelError(reason, hint, code="KP102")


def check_meant(path: FilePath, weights: bool = False) -> None:
    """Raise an error that names the right path if `path` is only a part of a model.

    With `weights`, a checkpoint without a model is accepted.
    """
    fetching.check(path)
    path = fetching.without_scheme(path)
    if not fetching.is_local(path):
        return
    with contextlib.suppress(PermissionError):  # the reader raises it
        path = pathlib.Path(path)
        is_part = path.name == MODEL_FILE and path.is_file()
        is_part |= path.name == VARIABLES and path.is_dir()
        if is_part and is_saved_model(path.parent):
            hint = f"Pass the folder {str(path.parent)!r}."
            reason = "a part of a SavedModel."
            raise LegacyModelError(reason, hint, path=path, code="KP102")
        is_model = is_saved_model(path) and not weights  # may have a prefix's name
        is_one = is_prefix(path) and not is_model
        prefixes = [path] if is_one else _prefixes(path)
        if len(prefixes) > 1:  # of a folder, or of its list
            latest = latest_checkpoint(path if path.is_dir() else path.parent)
            prefixes = [latest] if latest else prefixes
        if prefixes and not (weights and prefixes == [path]):
            named = " or ".join(repr(str(prefix)) for prefix in prefixes)
            into_code = hints.load_weights_into_code(prefixes[0])
            raise LegacyModelError(
                "a part of a checkpoint, which holds weights without a model, and is "
                "named without an ending:",
                f"did you mean {named}?" if weights else into_code,
                path=path,
                code="KP104",
            )


def is_prefix(path: pathlib.Path) -> bool:
    """Return whether a path is the prefix of a checkpoint."""
    return os.path.isfile(f"{path}{INDEX}")  # false for a name that is too long


def prefix_of(path: pathlib.Path) -> pathlib.Path:
    """Return the prefix of the checkpoint that a file belongs to, by its name."""
    stem = path.name.removesuffix(INDEX).partition(DATA)[0]
    return path.with_name(stem or path.name)  # `.index` is only a name


def _prefixes(path: pathlib.Path) -> list[pathlib.Path]:
    """Return the prefixes of the checkpoints that a path is part of or contains."""
    if os.path.isdir(path) and not is_saved_model(path):
        is_model = is_prefix(path / VARIABLES / VARIABLES)
        return [] if is_model else checkpoints_beside(path)
    if not os.path.isfile(path):
        return []
    if path.name == LIST:
        return checkpoints_beside(path.parent)
    prefix = prefix_of(path)
    return [prefix] if prefix != path and is_prefix(prefix) else []


def checkpoints_beside(folder: pathlib.Path) -> list[pathlib.Path]:
    """Return the prefixes of the checkpoints in a folder."""
    return [path.with_suffix("") for path in sorted(folder.glob(f"?*{INDEX}"))]


def latest_checkpoint(folder: pathlib.Path) -> pathlib.Path | None:
    """Return the prefix of the latest checkpoint in a folder, None if it is not known.

    The file `checkpoint` names it, `model_checkpoint_path: "ckpt-2"`.
    Source: tf.train.latest_checkpoint.
    """
    prefixes, listed = checkpoints_beside(folder), folder / LIST
    if len(prefixes) < 2:
        return prefixes[0] if prefixes else None
    if listed.is_symlink() or not listed.is_file():  # a pipe would never answer
        return None
    with contextlib.suppress(OSError, ValueError):
        with listed.open(encoding="utf-8") as file:
            line = file.readline(LIST_CHARACTERS)
        name = json.loads(line.removeprefix(LATEST).strip())
        # A path is that on the machine which wrote it; only its name is of use here.
        named = folder / re.split(r"[/\\]", str(name))[-1]
        if line.startswith(LATEST) and named in prefixes:
            return named
    return None


def with_latest(path: FilePath) -> FilePath:
    """Return a path; for a folder of checkpoints or its list, that of the latest."""
    local = fetching.without_scheme(path)
    if fetching.is_local(path):
        place = pathlib.Path(local)
        folder = place.parent if place.name == LIST and place.is_file() else place
        is_part = folder.name == VARIABLES and is_saved_model(folder.parent)
        if folder.is_dir() and not (is_part or is_saved_model(folder)):
            models = models_in(str(folder), levels=1)
            return (next(models, None) is None and latest_checkpoint(folder)) or path
    return path


def check_hub() -> None:
    """Raise if `huggingface_hub` is not installed."""
    try:
        import huggingface_hub  # noqa: F401 (an extra)
    except ImportError as error:
        raise LegacyModelError(
            f"{HUB} needs the package huggingface_hub, which is not installed.",
            "Run pip install huggingface_hub.",
            code="KP004",
        ) from error


def _download(url: str, folder: pathlib.Path, weights: bool) -> None:
    """Download a model into an empty folder; with `weights`, also checkpoints.

    The snapshots in the cache are links to its blobs, which the readers would refuse.
    """
    check_hub()
    import huggingface_hub

    repository = url.removeprefix(HUB)
    patterns = [*PATTERNS, *(CHECKPOINT if weights else [])]
    try:
        cached = huggingface_hub.snapshot_download(repository, allow_patterns=patterns)
    except Exception as error:  # the Hub may raise anything
        reason = f"it cannot be downloaded: {type(error).__name__}: {error}"
        raise LegacyModelError(reason, code="KP107") from error
    for source in pathlib.Path(cached).rglob("*"):
        if source.is_file():
            target = folder / source.relative_to(cached)
            with files.in_temporary_folder():
                target.parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(source, target)


def link_or_copy(source: pathlib.Path, target: pathlib.Path) -> None:
    """Give a file another name in a temporary folder."""
    try:
        os.link(source.resolve(), target)
    except OSError:  # on another disk, or where there are no links
        files.copy(source, target)
