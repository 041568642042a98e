"""Writes a complete file or none: to a temporary folder, then moved into place."""

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator

from keras_policies._common.types import Path
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.errors import LegacyModelError, located

ENDING = ".keras"
NOTHING_WRITTEN = "Nothing was written."


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
            if destination.is_dir():
                raise LegacyModelError("it is a folder.", "Choose another name.")
            if destination.exists() and not overwrite:
                raise _exists(destination)
            folder = destination.parent
            while makes_folder and not folder.exists() and folder != folder.parent:
                folder = folder.parent
            if folder.exists() and not folder.is_dir():
                raise LegacyModelError(f"{str(folder)!r} is a file, not a folder.")
            if not folder.exists():
                reason = f"there is no folder {str(folder)!r} to put it in."
                raise LegacyModelError(reason, "Create it first.")
        except OSError as error:  # such as a folder without permission
            raise LegacyModelError(f"cannot be written: {error}.") from error
        effective = os.access in os.supports_effective_ids
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=effective):
            raise LegacyModelError(f"the folder {str(folder)!r} is not writable.")


@contextlib.contextmanager
def writing(destination: pathlib.Path, overwrite: bool) -> Iterator[pathlib.Path]:
    """Yield a path to write to, then move the finished file to `destination`.

    If the block raises, or if the file cannot be written or exists by then, no file is
    written, and the `LegacyModelError` says so.
    """
    prefix = f".{destination.name}."
    try:
        with tempfile.TemporaryDirectory("", prefix, destination.parent) as folder:
            written = pathlib.Path(folder, destination.name)
            yield written
            with written.open("rb") as file:
                os.fsync(file.fileno())
            # os.link fails if another program has written the file in the meantime.
            (os.replace if overwrite else os.link)(written, destination)
    except LegacyModelError as error:
        error.hint = f"{error.hint} {NOTHING_WRITTEN}".lstrip()
        raise
    except FileExistsError:
        raise _exists(destination) from None
    except OSError as error:
        reason = f"cannot be written: {error}."
        raise LegacyModelError(
            reason, NOTHING_WRITTEN, path=destination, code="KP108"
        ) from error


def _exists(destination: pathlib.Path) -> LegacyModelError:
    return LegacyModelError(
        "it already exists.",
        f"Choose another name, or pass {hints.OVERWRITE}.",
        path=destination,
        code="KP108",
    )
