"""Finds the model that a path means: in an archive, in a folder, or on the hub.

A path to a part of a model is refused; the error names the right path.
`hf://user/model` is downloaded from the Hugging Face Hub, as in Keras 3.
"""

import contextlib
import os
import pathlib
import shutil
from collections.abc import Iterator

from keras_policies.legacy.base import hints
from keras_policies.legacy.base.errors import FilePath, LegacyModelError, located
from keras_policies.legacy.readers import archives, fetching
from keras_policies.legacy.readers.fetching import HUB

MODEL_FILE = "saved_model.pb"
# Files in the folder that a .keras file of Keras 3 is unpacked into.
KERAS_3_FOLDER = "config.json", "metadata.json"
ENDINGS = ".h5", ".hdf5", ".keras"
BESIDE = "__MACOSX"  # where macOS puts its own files in a zip
NAMED = 3  # models named in an error
VARIABLES, LIST = "variables", "checkpoint"
INDEX, DATA = ".index", ".data-"
# The files of a model, in a repository with other files.
PATTERNS = [
    *("*.h5", "*.hdf5", "*.keras"),
    *("*saved_model.pb", "*keras_metadata.pb", "*variables/*", "*assets/*"),
    *("config.json", "metadata.json"),
]
CHECKPOINT = ["*.index", "*.data-*"]


def is_saved_model(folder: FilePath) -> bool:
    """Return whether a folder is a SavedModel."""
    return os.path.isfile(os.path.join(folder, MODEL_FILE))


def is_keras_3(folder: pathlib.Path) -> bool:
    """Return whether a folder is a `.keras` file of Keras 3, unpacked."""
    return all((folder / name).is_file() for name in KERAS_3_FOLDER)


def models_in(
    folder: str, levels: float, unreadable: list[str] | None = None
) -> Iterator[str]:
    """Yield the paths of the models in a folder, in a fixed order.

    Args:
        folder: a folder that is not a model itself.
        levels: how many levels of folders to look into; 0 for the folder alone.
        unreadable: gets the folders that may not be read.
    """
    refused: list[str] = [] if unreadable is None else unreadable
    walk = os.walk(folder, onerror=lambda error: refused.append(error.filename))
    for here, folders, files in walk:
        depth = 0 if here == folder else os.path.relpath(here, folder).count(os.sep) + 1
        models = {name for name in folders if is_saved_model(os.path.join(here, name))}
        named = models.union(name for name in files if name.endswith(ENDINGS))
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
    """Yield the path of the model that `path` means, which may be unpacked for it.

    Args:
        path: of a model, of a folder with one, of an archive; or one on the hub.
        weights: whether a checkpoint in an archive also counts as a model.

    Raises:
        LegacyModelError: if an archive or a repository has no model or several. An
            error about a file in them names it below `path`.
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
    """Return whether a path is a packed folder, and not a model."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            start = file.read(len(archives.XZ))
    except OSError:  # opening it says so
        return False
    if archives.is_packed(start):
        return True
    return start.startswith(archives.ZIP) and not archives.is_keras_file(path)


def one_level_down(path: pathlib.Path) -> pathlib.Path:
    """Return a path, or that of the only model in a folder or one level below."""
    with contextlib.suppress(PermissionError):  # opening it says so
        if path.is_dir() and not is_saved_model(path) and not is_keras_3(path):
            models = list(models_in(str(path), levels=1))
            if len(models) == 1:
                return pathlib.Path(models[0])
    return path


def check_folder(path: pathlib.Path) -> None:
    """Raise if a folder, which is not a model itself, has several models."""
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

    `weights` says that weights without a model are enough.
    """
    fetching.check(path)
    if not fetching.is_local(path):
        return
    with contextlib.suppress(PermissionError):  # opening it says so
        path = pathlib.Path(path)
        folder = _saved_model_around(path)
        if folder is not None:
            hint = f"Pass the folder {str(folder)!r}."
            raise LegacyModelError(
                "a part of a SavedModel.", hint, path=path, code="KP102"
            )
        prefixes = [path] if is_prefix(path) else _prefixes(path)
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
    """Return whether a path is a checkpoint's, which may be called `checkpoint`."""
    return path.with_name(f"{path.name}{INDEX}").is_file()


def _saved_model_around(path: pathlib.Path) -> pathlib.Path | None:
    """Return the folder of the SavedModel that a path is a part of, or None."""
    if path.name == MODEL_FILE and path.is_file():
        return path.parent
    is_inside = path.name == VARIABLES and path.is_dir()
    return path.parent if is_inside and is_saved_model(path.parent) else None


def _prefixes(path: pathlib.Path) -> list[pathlib.Path]:
    """Return the checkpoints that a path is a part of, or that lie in it."""
    if path.is_dir() and not is_saved_model(path):
        is_model = (path / VARIABLES / (VARIABLES + INDEX)).is_file()
        return [] if is_model else _checkpoints_beside(path)
    if not path.is_file():
        return []
    if path.name == LIST:
        return _checkpoints_beside(path.parent)
    name = path.name.removesuffix(INDEX).partition(DATA)[0]
    prefix = path.with_name(name)
    has_index = prefix.with_name(name + INDEX).is_file()
    return [prefix] if name != path.name and has_index else []


def _checkpoints_beside(folder: pathlib.Path) -> list[pathlib.Path]:
    return [path.with_suffix("") for path in sorted(folder.glob(f"*{INDEX}"))]


def check_hub() -> None:
    """Raise if what downloads is not installed."""
    try:
        import huggingface_hub  # noqa: F401 (an extra)
    except ImportError as error:
        raise LegacyModelError(
            f"{HUB} needs the package huggingface_hub, which is not installed.",
            "Run pip install huggingface_hub.",
            code="KP004",
        ) from error


def _download(url: str, folder: pathlib.Path, weights: bool) -> None:
    """Put the files of a repository into an empty folder, from the cache if it can.

    The cache has links from its snapshots to its blobs, which the readers refuse. With
    `weights`, checkpoints are also downloaded.
    """
    check_hub()
    import huggingface_hub

    repository = url.removeprefix(HUB)
    patterns = [*PATTERNS, *(CHECKPOINT if weights else [])]
    try:
        cached = huggingface_hub.snapshot_download(repository, allow_patterns=patterns)
    except Exception as error:  # of the hub, of its network, of a wrong name
        reason = f"it cannot be downloaded: {type(error).__name__}: {error}"
        raise LegacyModelError(reason, code="KP107") from error
    shutil.copytree(cached, folder, dirs_exist_ok=True, copy_function=_link)


def _link(source: str, target: str) -> None:
    try:
        os.link(os.path.realpath(source), target)
    except OSError:  # on another disk
        shutil.copyfile(source, target)
