"""Copies models that have no local path: open files, `h5py.File`s, and addresses.

`downloads` reads `https://`; fsspec, an extra, reads others, such as `s3://`.
"""

import contextlib
import io
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any, Protocol

from keras_policies._common import files
from keras_policies.legacy.base.errors import FilePath, LegacyModelError, located
from keras_policies.legacy.guards import limits, packed
from keras_policies.legacy.guards.budget import Limit
from keras_policies.legacy.readers import downloads

HUB = "hf://"
LOCAL = "file://", "local://"  # of a path on this machine
# An address, and what pathlib.Path makes of one.
ADDRESS = r"[A-Za-z][\w+.-]+(::.*)?://"
SHORTENED = r"(https?|s3|gs|gcs|hf):[/\\][^/\\]"  # with backslashes on Windows


class Readable(Protocol):
    """Whatever gives bytes."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, and none at the end."""
        ...


def is_local(path: FilePath) -> bool:
    """Return whether a model is given as a path, on this machine or on the Hub."""
    if not isinstance(path, str | os.PathLike):
        return False
    return is_hub(path) or not re.match(ADDRESS, os.fspath(path))


def without_scheme(path: Any) -> Any:
    """Return the path in a `file://` address; whatever else `path` is, unchanged.

    It is then read as any other path is: links out of a folder are refused.
    """
    if not isinstance(path, str) or not path.lower().startswith(LOCAL):
        return path
    here = path.partition("://")[2]
    has_drive = re.match("/[A-Za-z]:", here) and os.name == "nt"
    return here[1:] if has_drive else here


def is_hub(path: FilePath) -> bool:
    """Return whether a path names a repository on the Hugging Face Hub."""
    return str(path).startswith(HUB)


def check(path: FilePath) -> None:
    """Raise if `path` is not something that a model can be read from."""
    path = without_scheme(path)
    hint = "Pass a path, an address, an open file (io.BytesIO), or an h5py.File."
    if isinstance(path, str | bytes | os.PathLike) and _is_in_bytes(path):
        raise LegacyModelError("a path as bytes.", "Pass os.fsdecode(path).")
    if isinstance(path, str | os.PathLike):
        text = os.fspath(path)
        if not text:
            raise LegacyModelError("an empty path.", hint)
        if re.match(SHORTENED, text) and not os.path.exists(text):
            reason = "an address as a pathlib.Path, which shortens it."
            raise LegacyModelError(reason, "Pass it as a str.", path=path)
        if "::" in text and not is_local(text):
            reason = "several addresses in one (`::`), which is not read."
            hint = "Pass the address of the file or the archive itself."
            raise LegacyModelError(reason, hint, path=path)
    elif isinstance(path, bytes | bytearray | memoryview):
        reason = f"{len(path)} bytes, expected a file."
        raise LegacyModelError(reason, "Pass io.BytesIO(...) of them.")
    elif isinstance(path, io.TextIOBase):
        reason = "a file that is open as text, expected bytes."
        raise LegacyModelError(reason, "Open it with mode 'rb'.")
    elif not (_is_hdf5(path) or hasattr(path, "read")):
        kind = f"{type(path).__module__}.{type(path).__name__}"
        raise LegacyModelError(f"a {kind}, expected a file.", hint)


def _is_in_bytes(path: str | bytes | os.PathLike[Any]) -> bool:
    """Return whether a path is in bytes, rather than bytes the content of a file."""
    is_one = not isinstance(path, bytes) or os.path.exists(path)
    return is_one and isinstance(os.fspath(path), bytes)


@contextlib.contextmanager
def fetched(path: FilePath) -> Iterator[FilePath]:
    """Yield a local path of a model; copy the model to it if it is elsewhere.

    `path` is a path, an address, an `h5py.File`, or a file open for reading bytes,
    which is read from its start if it can seek.
    """
    with located(path, code="KP102"):
        check(path)
        path = without_scheme(path)
        if is_local(path):
            yield path
            return
        with in_new_folder(path) as folder:
            copy = _copied(path, folder)
            with _named(path, str(copy)):
                yield copy


def _copied(path: Any, folder: pathlib.Path) -> pathlib.Path:
    if isinstance(path, str | os.PathLike):
        return _from_address(os.fspath(path), folder)
    target = folder / "model"
    if _is_hdf5(path):
        files.copy(io.BytesIO(path.id.get_file_image()), target)
    else:
        with contextlib.suppress(AttributeError, io.UnsupportedOperation):
            path.seek(0)
        _copy(path, target, Limit(limits.ARCHIVE_BYTES, "bytes in the file"))
    return target


def _is_hdf5(file: Any) -> bool:
    """Return whether an object is an `h5py.File`; raise for a group."""
    if not type(file).__module__.startswith("h5py"):
        return False
    if type(file).__name__ != "File":
        reason = f"an h5py.{type(file).__name__}, expected an h5py.File."
        raise LegacyModelError(reason, "Pass its .file, if that is the model.")
    file.flush()
    return True


def _copy(source: Readable, target: pathlib.Path, limit: Limit) -> None:
    with files.in_temporary_folder():
        target.parent.mkdir(parents=True, exist_ok=True)
        file = target.open("xb")
    with file:
        files.fill(file, _counted(source, limit))


def _counted(source: Readable, limit: Limit) -> Iterator[bytes]:
    while chunk := source.read(files.COPY_BYTES):
        limit.spend(len(chunk))
        yield chunk


def _from_address(address: str, folder: pathlib.Path) -> pathlib.Path:
    """Copy the file or the folder at an address into an empty folder."""
    scheme, _, path = address.partition("://")
    name = path.partition("?")[0].partition("#")[0].rstrip("/")
    name = name.rpartition("/")[2] or "model"
    packed.check_entry(name, 0)
    size = Limit(limits.ARCHIVE_BYTES, "bytes at the address")
    target = folder / name
    is_http = scheme.lower() in downloads.SCHEMES
    copy = _copied_from_host if is_http else _copied_by_fsspec
    try:
        downloads.watched(lambda: copy(address, target, size), lambda: size.spent)
    except (LegacyModelError, files.TemporaryFolderError):
        size.close()  # a download that is given up ends with its next bytes
        raise
    except Exception as error:  # a file system may raise anything
        reason = f"it cannot be read: {type(error).__name__}: {error}"
        if isinstance(error, FileNotFoundError):
            reason = "there is no such file or folder."
        hint = "Check the address and your access to it, or download it yourself."
        raise LegacyModelError(reason, hint, code="KP107") from error
    return target


def _copied_from_host(address: str, target: pathlib.Path, size: Limit) -> None:
    with downloads.opened(address) as source:
        _copy(source, target, size)


def _copied_by_fsspec(address: str, target: pathlib.Path, size: Limit) -> None:
    try:
        import fsspec  # an extra
    except ImportError as error:
        raise LegacyModelError(
            f"{address.partition(':')[0]}:// needs the package fsspec, which is not "
            "installed.",
            "Run pip install fsspec (for s3:// s3fs, for gs:// gcsfs), or download the "
            "file, and pass its path.",
            code="KP004",
        ) from error
    system, path = fsspec.core.url_to_fs(address)
    is_folder = system.isdir(path)
    count = Limit(limits.ARCHIVE_ENTRIES, "files at the address")
    for each in system.find(path) if is_folder else [path]:
        count.spend()
        inner = each.removeprefix(path).lstrip("/") if is_folder else ""
        packed.check_entry(inner or target.name, 0)
        with system.open(each, "rb") as source:
            _copy(source, target / inner, size)


@contextlib.contextmanager
def in_new_folder(path: FilePath) -> Iterator[pathlib.Path]:
    """Yield a temporary folder; errors inside name `path` in its place."""
    with files.temporary_folder() as folder, _named(path, str(folder)):
        yield folder


@contextlib.contextmanager
def _named(path: FilePath, copy: str) -> Iterator[None]:
    """Let errors about a copy name the path that it was copied from."""
    try:
        yield
    except LegacyModelError as error:
        if str(error.path).startswith(copy):
            error.path = str(path) + str(error.path).removeprefix(copy)
        raise
