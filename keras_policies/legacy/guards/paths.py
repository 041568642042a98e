"""Refuses links out of the folder that the user named, and what is no regular file."""

import itertools
import os
import pathlib
import stat

from keras_policies.legacy.base.errors import FilePath, LegacyModelError

FILES = "*.pb", "assets/*", "variables/*"
MAX_FILES = 100_000
KINDS = {
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe (FIFO)",
    stat.S_IFSOCK: "a socket",
}


def check_inside(path: pathlib.Path, folder: pathlib.Path) -> None:
    """Raise if a file of a folder is a link to somewhere outside of it.

    Otherwise the folder's author could choose any file of the user's machine. The
    folder may be a link itself: the user named it.
    """
    if not path.resolve().is_relative_to(folder.resolve()):
        raise LegacyModelError(
            f"a link to a file outside of {folder}, which is not read.",
            "If you trust it, copy the folder with the files its links lead to "
            "(cp -rL).",
            path=path,
        )


def size(path: FilePath) -> int:
    """Return the bytes of a file, or of those of a SavedModel in a folder."""
    path = pathlib.Path(path)
    found = (one for pattern in FILES for one in path.glob(pattern))
    every = itertools.islice(found, MAX_FILES) if path.is_dir() else [path]
    return sum(one.stat().st_size for one in every if one.is_file())


def check_regular(path: FilePath) -> None:
    """Raise if a path leads to a FIFO, a device or a socket: opening one may hang."""
    kind = stat.S_IFMT(os.stat(path).st_mode)
    if kind != stat.S_IFREG:
        name = KINDS.get(kind, "something else")
        raise LegacyModelError(f"{name}, expected a regular file.", path=path)
