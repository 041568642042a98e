"""Writes a file whole or not at all: beside its destination, then in its place."""

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator

from keras_policies.legacy.base.errors import LegacyModelError

NOTHING_WRITTEN = "Nothing was written."


def check(destination: pathlib.Path, overwrite: bool) -> None:
    """Raise if a file cannot be put at `destination`, before any work is done for it.

    Args:
        destination: path of the file.
        overwrite: bool, whether an existing file is replaced.

    Raises:
        LegacyModelError: if there is a file, or no folder to put one in.
    """
    if destination.exists() and not overwrite:
        raise _exists(destination)
    if not destination.parent.is_dir():
        raise LegacyModelError(
            f"there is no folder {str(destination.parent)!r} to put it in.",
            "Make it first.",
            path=destination,
        )


@contextlib.contextmanager
def writing(destination: pathlib.Path, overwrite: bool) -> Iterator[pathlib.Path]:
    """Yield a path to write to; put the finished file in the place of `destination`.

    If the block raises, there is no new file.

    Args:
        destination: path of the file.
        overwrite: bool, whether an existing file is replaced.

    Raises:
        LegacyModelError: if the file cannot be written, or has come into being since.
    """
    try:
        with tempfile.TemporaryDirectory(
            prefix=f".{destination.name}.", dir=destination.parent
        ) as folder:
            written = pathlib.Path(folder, destination.name)
            yield written
            with written.open("rb") as file:
                os.fsync(file.fileno())
            if overwrite:
                os.replace(written, destination)
            else:
                os.link(written, destination)  # fails if there is a file by now
    except LegacyModelError as error:
        error.remedy = f"{error.remedy} {NOTHING_WRITTEN}".lstrip()
        raise
    except FileExistsError:
        raise _exists(destination) from None
    except OSError as error:
        raise LegacyModelError(
            f"cannot be written: {error}.", NOTHING_WRITTEN, path=destination
        ) from error


def _exists(destination: pathlib.Path) -> LegacyModelError:
    return LegacyModelError(
        "it exists already.",
        "Choose another name, or pass overwrite=True (--overwrite).",
        path=destination,
    )
