"""Writes complete files or none, and temporary files, on every kind of file system."""

import contextlib
import errno
import os
import pathlib
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, BinaryIO, cast

from keras_policies._common import leftovers

IS_WINDOWS = sys.platform == "win32"
# Answers to fsync where a file system cannot: some network shares, FUSE.
CANNOT_SYNC = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
NAMES = 100  # tried for a new folder, before another program is blamed
LONGEST_ENDING = len(".weights.h5")
LONG = 200  # characters: with a temporary folder, Windows may refuse longer paths
COPY_BYTES = 1024 * 1024  # written at a time
# What Windows refuses in names, or opens as a device.
FORBIDDEN = {*'<>:"|?*', *map(chr, range(32))}
DEVICES = {"CON", "PRN", "AUX", "NUL"} | {
    f"{port}{number}" for port in ("COM", "LPT") for number in "123456789¹²³"
}


class TemporaryFolderError(OSError):
    """The folder for temporary files cannot be used; no model is at fault."""

    code = "KP110"
    hint = "Make room there, or set TMPDIR to another folder."

    def __init__(self, error: OSError) -> None:
        try:
            folder = f"the temporary folder {tempfile.gettempdir()!r}"
        except OSError:  # there is none; the error lists those that were tried
            folder = "a temporary folder"
        self.reason = f"{folder} cannot be written: {error}."
        super().__init__(f"{self.reason} {self.hint}")


@contextlib.contextmanager
def in_temporary_folder() -> Iterator[None]:
    """Raise a `TemporaryFolderError` for an OSError inside."""
    try:
        yield
    except TemporaryFolderError:
        raise
    except OSError as error:
        raise TemporaryFolderError(error) from error


@contextlib.contextmanager
def temporary_folder() -> Iterator[pathlib.Path]:
    """Yield a new folder, which is removed at the end."""
    with in_temporary_folder():
        folder = tempfile.mkdtemp()
    try:
        yield pathlib.Path(folder)
    finally:
        # On Windows, a file that is still open stays; that must hide no other error.
        shutil.rmtree(folder, ignore_errors=True)


def temporary_file() -> BinaryIO:
    """Return a new file without a name, which is gone once it is closed."""
    with in_temporary_folder():
        return cast(BinaryIO, tempfile.TemporaryFile())


def fill(file: IO[bytes], chunks: Iterable[bytes]) -> int:
    """Write to a temporary file; return the number of bytes.

    Errors of the chunks, which come from another file, are passed on.
    """
    size = 0
    try:
        for chunk in chunks:
            with in_temporary_folder():
                file.write(chunk)
            size += len(chunk)
        with in_temporary_folder():
            file.flush()
    except TemporaryFolderError:
        # Or it would be written again when it is closed, and raise another error.
        with contextlib.suppress(OSError):
            file.close()
        raise
    return size


def chunks(source: IO[bytes]) -> Iterator[bytes]:
    """Yield the rest of a file."""
    while chunk := source.read(COPY_BYTES):
        yield chunk


def copy(source: pathlib.Path | IO[bytes], target: pathlib.Path) -> int:
    """Copy a file to a new one in a temporary folder; return the number of bytes."""
    with contextlib.ExitStack() as files:
        if isinstance(source, pathlib.Path):
            source = files.enter_context(source.open("rb"))
        with in_temporary_folder():
            file = files.enter_context(target.open("xb"))
        return fill(file, chunks(source))


def check_room(path: pathlib.Path, size: int) -> None:
    """Raise OSError if a file of `size` bytes cannot be written to `path`.

    HDF5 must not be the one to find out: where it cannot write, the process crashes
    when the next HDF5 file is opened.
    """
    try:
        with path.open("wb") as file:
            for start in range(0, size, COPY_BYTES):
                file.write(bytes(min(COPY_BYTES, size - start)))
    finally:
        path.unlink(missing_ok=True)


def exists(path: pathlib.Path) -> bool:
    """Return whether there is something at a path, even a link that leads nowhere.

    Raise OSError if the system does not say, or refuses the name.
    """
    try:
        os.lstat(unlimited(path))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def is_folder(path: pathlib.Path) -> bool:
    """Return whether a path is a folder; raise OSError if the system does not say."""
    try:
        return stat.S_ISDIR(os.stat(unlimited(path)).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def is_forbidden(name: str) -> bool:
    """Return whether this is Windows, and it refuses a name or opens a device."""
    is_device = name.partition(".")[0].rstrip().upper() in DEVICES
    is_wrong = is_device or name.endswith((" ", ".")) or not FORBIDDEN.isdisjoint(name)
    return IS_WINDOWS and is_wrong


@contextlib.contextmanager
def writing(destination: pathlib.Path, overwrite: bool) -> Iterator[pathlib.Path]:
    """Yield a path to write to, then move the finished file to `destination`.

    If the block raises, no file is written. Raise FileExistsError if `overwrite` is
    false and there is a file by then, and OSError if the file cannot be written.
    """
    destination = unlimited(destination)
    leftovers.remove_from(destination.parent)
    folder = _new_folder(destination.parent)
    try:
        ending = "".join(destination.suffixes[-2:])[-LONGEST_ENDING:]
        written = folder / f"new{ending}"
        yield written
        _sync(written)
        _move(written, destination, overwrite)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def try_folder(folder: pathlib.Path) -> None:
    """Raise OSError if nothing can be created in a folder.

    Neither permissions nor `os.access` say so on network shares, nor on Windows.
    """
    os.rmdir(_new_folder(unlimited(folder)))


def nearest(folder: pathlib.Path) -> pathlib.Path:
    """Return a folder, or the one above that exists; raise OSError as `exists` does."""
    while not exists(folder) and folder != folder.parent:
        folder = folder.parent
    return folder


def ignores_case(folder: pathlib.Path) -> bool:
    """Return whether names that differ only in case are one file in a folder."""
    with contextlib.suppress(OSError):  # nothing can be written there
        new = _new_folder(nearest(unlimited(folder)))
        try:
            return exists(new.with_name(new.name.upper()))
        finally:
            os.rmdir(new)
    return False


def unlimited(path: pathlib.Path) -> pathlib.Path:
    r"""Return a path; on Windows, a long one gets `\\?\`, which lifts the limit."""
    absolute = os.path.abspath(path)
    if not IS_WINDOWS or len(absolute) < LONG or absolute.startswith("\\\\?\\"):
        return path
    if absolute.startswith("\\\\"):
        return pathlib.Path(f"\\\\?\\UNC{absolute[1:]}")
    return pathlib.Path(f"\\\\?\\{absolute}")


def _new_folder(parent: pathlib.Path) -> pathlib.Path:
    """Create a folder under a short name, since that of the file may be the longest.

    Where nothing may be created, tempfile.mkdtemp tries 2^31 names on Windows.
    """
    for _ in range(NAMES):
        folder = parent / f"{leftovers.prefix()}{secrets.token_hex(4)}"
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
            return folder
    raise FileExistsError(errno.EEXIST, "no free name for a temporary folder", parent)


def _sync(path: pathlib.Path) -> None:
    # Windows syncs only files that are open for writing.
    with path.open("r+b" if IS_WINDOWS else "rb") as file:
        try:
            os.fsync(file.fileno())
        except OSError as error:
            if error.errno not in CANNOT_SYNC:
                raise


def _move(written: pathlib.Path, destination: pathlib.Path, overwrite: bool) -> None:
    """Move a file; without `overwrite`, never replace one that is there by now."""
    if overwrite:
        os.replace(written, destination)
    elif IS_WINDOWS:
        os.rename(written, destination)  # raises FileExistsError
    else:
        try:
            os.link(written, destination)
        except FileExistsError:
            raise
        except OSError:  # Google Drive, FAT, exFAT, SMB and FUSE may have no hard links
            _claim_and_replace(written, destination)


def _claim_and_replace(written: pathlib.Path, destination: pathlib.Path) -> None:
    destination.open("xb").close()
    try:
        os.replace(written, destination)
    except BaseException:
        destination.unlink(missing_ok=True)
        raise
