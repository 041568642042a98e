"""Chooses the reader of a file by its content, not by its name."""

import contextlib
import dataclasses
import importlib
import pathlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TypeAlias

from keras_policies.legacy.base import errors, hints
from keras_policies.legacy.base.errors import FilePath, LegacyModelError, located
from keras_policies.legacy.base.model import LegacyModel
from keras_policies.legacy.guards import budget, paths, texts
from keras_policies.legacy.readers import fetching, sources

Reader: TypeAlias = AbstractContextManager[LegacyModel]
# Modules, imported when needed: h5py and protobuf take 0.1 s.
HDF5, ARCHIVE, FOLDER = "hdf5", "keras_archive", "saved_model.saved_model"
ARCHITECTURE = "architecture"
ENDINGS = ".json", ".yaml", ".yml"  # of architectures
SIGNATURES = {b"\x89HDF\r\n\x1a\n": HDF5, b"PK\x03\x04": ARCHIVE}
TF_LITE = b"TFL3"  # after four bytes
EXPECTED = (
    "a SavedModel folder (with saved_model.pb), an .h5 file, or a .keras file, written "
    "by tf.keras 2.0 to 2.15, TensorFlow 1, Keras 1 or 2; or one in a .zip, .tar.gz, "
    ".tar.xz or .tar.bz2 file, or at hf://user/model or another address; or a .json or "
    ".yaml file with weights beside it"
)


def is_zip(path: FilePath) -> bool:
    """Return whether the file at `path` is a zip, such as a `.keras` file."""
    with located(path, code="KP105"):
        return _reader_name(pathlib.Path(path)) == ARCHIVE


def _kind(path: pathlib.Path) -> str:
    """Return the module that reads the file at `path`, by its first bytes."""
    paths.check_regular(path)
    with path.open("rb") as file:
        start = file.read(8)
    for signature, reader in SIGNATURES.items():
        if start.startswith(signature):
            return reader
    is_json = start.removeprefix(texts.BYTE_ORDER_MARK).lstrip().startswith(b"{")
    if start and (is_json or path.suffix.lower() in ENDINGS):
        return ARCHITECTURE
    if start[4:] == TF_LITE:
        reason = "a TensorFlow Lite model, which cannot be trained."
        hint = "Pass the model that it was converted from."
        raise LegacyModelError(reason, hint, code="KP102")
    problem = f"it begins with {start!r}" if start else "the file has zero bytes"
    raise LegacyModelError(f"no model: {problem}. Expected {EXPECTED}.", code="KP102")


def check(path: FilePath) -> None:
    """Raise if the first bytes at `path` are not those of a model that is here."""
    sources.check_meant(path)
    path = fetching.without_scheme(path)
    with located(path, code="KP105"):
        if fetching.is_hub(path):
            sources.check_hub()
        elif fetching.is_local(path) and not sources.is_archive(pathlib.Path(path)):
            here = sources.one_level_down(pathlib.Path(path))
            paths.check_fetched(here)
            _reader_name(here)


@contextlib.contextmanager
def read(
    path: FilePath, weights: FilePath | None = None, *, needs_weights: bool = False
) -> Iterator[LegacyModel]:
    """Yield the `LegacyModel` at `path`, whose tensors can be read in this context.

    `weights` is the file with the weights if `path` is that of an architecture, which
    is refused without them if `needs_weights`. Work in this context is charged against
    a budget in proportion to the size of the file.
    """
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(fetching.fetched(path))
        here = stack.enter_context(sources.local(source))
        is_packed = sources.is_archive(pathlib.Path(source))
        size = paths.size(source if is_packed else here)
        size += 0 if weights is None else paths.size(weights)
        stack.enter_context(budget.of(size))
        stack.enter_context(paths.unchanged(here))
        with located(here, code="KP105"):
            paths.check_fetched(here)
            name = _reader_name(here)
            if name != ARCHITECTURE and weights is not None:
                raise LegacyModelError(
                    "weights are only for an architecture (.json, .yaml).",
                    "Call keras_policies.load_weights for those of another file.",
                    code="KP109",
                )
            module = importlib.import_module(f"keras_policies.legacy.readers.{name}")
            arguments = [here] if weights is None else [here, weights]
            reader: Reader = module.read(*arguments)
        with errors.corrupt(here):
            try:
                legacy = stack.enter_context(reader)
            except LegacyModelError as error:
                error.hint = error.hint or str(errors.COPY_AGAIN)
                raise
        legacy = dataclasses.replace(legacy, path=str(path), weights_file=weights)
        if needs_weights and legacy.lacks_weights:
            reason = "the file has an architecture, but no weights."
            raise LegacyModelError(reason, hints.PASS_WEIGHTS, path=path)
        yield legacy


def _reader_name(path: pathlib.Path) -> str:
    try:
        return _folder_kind(path) if path.is_dir() else _kind(path)
    except LegacyModelError:
        raise
    except OSError as error:  # such as a missing permission
        raise LegacyModelError(f"cannot be read: {error}.", code="KP107") from error


def _folder_kind(path: pathlib.Path) -> str:
    with contextlib.suppress(FileNotFoundError):
        # Raises if the folder is locked; since Python 3.14, `is_file` is only false.
        (path / sources.MODEL_FILE).stat()
    if sources.is_saved_model(path):
        return FOLDER
    if sources.is_keras_3(path):
        raise errors.Keras3ModelError
    sources.check_folder(path)
    reason = f"a folder without {sources.MODEL_FILE}. Expected {EXPECTED}."
    raise LegacyModelError(reason, code="KP102")
