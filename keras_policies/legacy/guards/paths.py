"""Refuses links out of a folder, special files, and files that change."""

import contextlib
import glob
import itertools
import os
import pathlib
import stat
from collections.abc import Iterable, Iterator

from keras_policies.legacy.base.errors import (
    FilePath,
    LegacyModelError,
    MissingFileError,
)
from keras_policies.legacy.guards import limits

FILES = "*.pb", "assets/*", "variables/*"
INDEX = ".index"  # of a checkpoint
LFS_START = b"version https://git-lfs.github.com/spec/"
LFS_BYTES = 1024  # pointers are smaller
KINDS = {
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe (FIFO)",
    stat.S_IFSOCK: "a socket",
}


def check_inside(path: pathlib.Path, folder: pathlib.Path) -> None:
    """Raise if a file in a folder is a link that leads out of the folder.

    Otherwise the folder's author could choose any file on the user's machine. The
    folder itself may be a link, because the user named it.
    """
    if not path.resolve().is_relative_to(folder.resolve()):
        raise LegacyModelError(
            f"a link to a file outside of {folder}, which is not read.",
            "If you trust it, copy the folder with the targets of its links (cp -rL).",
            path=path,
            code="KP203",
        )


def _files(path: pathlib.Path) -> Iterable[pathlib.Path]:
    """Return a file, the files of a SavedModel folder, or those of a checkpoint."""
    if path.is_dir():
        return (file for pattern in FILES for file in path.glob(pattern))
    if path.is_file() and path.suffix != INDEX:
        return [path]
    name = glob.escape(path.name.removesuffix(INDEX))
    return path.parent.glob(f"{name}.*")


def _stats(path: FilePath) -> dict[pathlib.Path, os.stat_result]:
    with contextlib.suppress(OSError):  # files may be deleted meanwhile
        files = itertools.islice(_files(pathlib.Path(path)), limits.FOLDER_FILES)
        return {file: file.stat() for file in files if file.is_file()}
    return {}


def check_fetched(path: FilePath) -> None:
    """Raise if a file of a model is a pointer that Git LFS left in its place.

    Format: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
    """
    for file, found in _stats(path).items():
        if found.st_size < LFS_BYTES and not file.is_symlink():
            with file.open("rb") as opened:
                is_pointer = opened.read(len(LFS_START)) == LFS_START
            if is_pointer:
                raise LegacyModelError(
                    f"{file.name} is a Git LFS pointer, not the file itself.",
                    "Run git lfs pull in the clone, or download the file.",
                    code="KP106",
                )


def size(path: FilePath) -> int:
    """Return the size of a file, or of the files of a SavedModel folder, in bytes."""
    return sum(stat.st_size for stat in _stats(path).values())


@contextlib.contextmanager
def unchanged(path: FilePath) -> Iterator[None]:
    """Raise at the end if the files at `path` were changed, replaced or deleted.

    The result would be a mixture of two models. An error that this has caused in the
    meantime is replaced.
    """
    before, failed = _stamps(path), None
    try:
        yield
    except LegacyModelError as error:
        failed = error
    if _stamps(path) != before:
        raise LegacyModelError(
            "it was changed while it was read.",
            "Open it again when no other program is writing to it.",
            path=path,
            code="KP107",
        ) from failed
    if failed is not None:
        raise failed


def _stamps(path: FilePath) -> dict[pathlib.Path, tuple[int, int, int]]:
    return {
        file: (status.st_ino, status.st_size, status.st_mtime_ns)
        for file, status in _stats(path).items()
    }


def check_regular(path: FilePath) -> None:
    """Raise if a path leads to a FIFO, a device or a socket, or nowhere.

    Opening a FIFO may hang.
    """
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        reason = "there is no such file or folder."
        raise MissingFileError(reason, path=path) from None
    if kind != stat.S_IFREG:
        name = KINDS.get(kind, "something else")
        raise LegacyModelError(f"{name}, expected a regular file.", path=path)
