"""Writes the files of commands and of `convert_model`: complete ones or none."""

import contextlib
import errno
import pathlib
import tempfile
from collections.abc import Iterator

from keras_policies._common import files
from keras_policies._common.types import Path
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.errors import LegacyModelError, located

ENDING = ".keras"
NOTHING_WRITTEN = "Nothing was written."
FULL = errno.ENOSPC, errno.EDQUOT


def check_ending(destination: Path) -> None:
    """Raise if Keras 3 cannot write a file of this name."""
    if pathlib.Path(destination).suffix != ENDING:
        raise LegacyModelError(
            f"the destination must end in {ENDING}, as Keras 3 requires.",
            path=destination,
            code="KP108",
        )


def check(
    destination: pathlib.Path, overwrite: bool, makes_folder: bool = False
) -> None:
    """Raise if no file can be written to `destination`, before any work is done.

    With `makes_folder`, the folder of the file may be missing.
    """
    with located(destination, code="KP108"):
        try:
            _check(destination, overwrite)
            folder = destination.parent
            _check_folder(files.nearest(folder) if makes_folder else folder)
        except OSError as error:  # such as a folder without permission
            raise LegacyModelError(f"cannot be written: {error}.") from error


def _check(destination: pathlib.Path, overwrite: bool) -> None:
    if files.is_forbidden(destination.name):
        hint = "Choose another name."
        raise LegacyModelError("Windows does not allow this name.", hint)
    if files.is_folder(destination):
        raise LegacyModelError("it is a folder.", "Choose another name.")
    if files.exists(destination) and not overwrite:
        raise _exists(destination)


def _check_folder(folder: pathlib.Path) -> None:
    if not files.exists(folder):
        reason = f"there is no folder {str(folder)!r} to put it in."
        raise LegacyModelError(reason, "Create it first.")
    if not files.is_folder(folder):
        raise LegacyModelError(f"{str(folder)!r} is a file, not a folder.")
    try:
        files.try_folder(folder)
    except OSError as error:
        reason = f"the folder {str(folder)!r} is not writable: {error.strerror}."
        raise LegacyModelError(reason) from error


@contextlib.contextmanager
def writing(destination: pathlib.Path, overwrite: bool) -> Iterator[pathlib.Path]:
    """Yield a path to write to, then move the finished file to `destination`.

    If the block raises, or if the file cannot be written or exists by then, no file is
    written, and the `LegacyModelError` says so.
    """
    try:
        with files.writing(destination, overwrite) as path:
            yield path
    except LegacyModelError as error:
        error.hint = f"{error.hint} {NOTHING_WRITTEN}".lstrip()
        raise
    except files.TemporaryFolderError:
        raise
    except FileExistsError:
        raise _exists(destination) from None
    except OSError as error:
        reason = f"cannot be written: {error}"
        if error.errno in FULL and error.filename is None:  # Keras uses both
            reason += f" (in its folder or in {tempfile.gettempdir()!r})"
        raise LegacyModelError(
            f"{reason}.", NOTHING_WRITTEN, path=destination, code="KP108"
        ) from error


def _exists(destination: pathlib.Path) -> LegacyModelError:
    return LegacyModelError(
        "it already exists.",
        f"Choose another name, or pass {hints.OVERWRITE}.",
        path=destination,
        code="KP108",
    )
