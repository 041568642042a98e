"""Checks archives before they are unpacked: names, types and claimed sizes."""

import io
import os
import pathlib
import stat
import sys

from keras_policies._common import files
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.guards import limits

# Characters that paths in an archive must not have: drives, Windows separators.
FORBIDDEN = "\0", "\\", ":"
OUTSIDE = "its path leads out of the folder to unpack to, or is a Windows path"


class SmallReads(io.FileIO):
    """A file that refuses reads of more than `limits.ARCHIVE_READ_BYTES`."""

    # Where the header of a .tar file begins, which newer Pythons read in pieces.
    header: int | None = None

    def read(self, size: int | None = -1) -> bytes:
        """Return at most `size` bytes, or the rest."""
        wanted = sys.maxsize if size is None or size < 0 else size
        end = min(self.tell() + wanted, os.fstat(self.fileno()).st_size)
        length = end - (self.tell() if self.header is None else self.header)
        if length > limits.ARCHIVE_READ_BYTES:
            raise LegacyModelError(
                f"a header of the archive has {length} bytes or more, expected at most "
                f"{limits.ARCHIVE_READ_BYTES}.",
                code="KP201",
            )
        return (
            super().read(wanted if wanted <= limits.ARCHIVE_READ_BYTES else -1) or b""
        )


def check_entry(name: str, mode: int) -> None:
    """Raise if an entry leaves its folder, or is neither a plain file nor a folder.

    `mode` has the file's type, as in `os.stat_result.st_mode`; 0 if it is not recorded.
    """
    parts = pathlib.PurePosixPath(name).parts
    is_inside = name and not name.startswith("/") and ".." not in parts
    if not is_inside or any(text in name for text in FORBIDDEN):
        raise _refused(name, OUTSIDE)
    if any(map(files.is_forbidden, parts)):
        reason = f"{name!r} in the archive is a name that Windows does not allow."
        hint = "Unpack it under another name, and pass the model in it."
        raise LegacyModelError(reason, hint, code="KP107")
    sizes = [len(part.encode(errors="replace")) for part in parts]
    is_long = sum(sizes) > limits.ARCHIVE_NAME_BYTES
    is_long |= max(sizes, default=0) > limits.ARCHIVE_PART_BYTES
    if is_long or len(parts) > limits.ARCHIVE_DEPTH:
        start = name[: limits.ARCHIVE_PART_BYTES]
        raise _refused(f"{start}…", "its path is too long or too deep")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise _refused(name, "it is a link or a device, not a file or a folder")


def _refused(name: str, reason: str) -> LegacyModelError:
    return LegacyModelError(
        f"{name!r} in the archive is refused: {reason}.",
        "If you trust it, unpack it, and pass the model in it.",
        code="KP203",
    )


def check_unpacked(claimed: int, packed: int) -> None:
    """Raise if an archive of `packed` bytes may not unpack to `claimed` bytes."""
    check_expansion("the archive", claimed, packed, limits.SMALL_FILE_BYTES)
    if claimed > limits.ARCHIVE_BYTES:
        raise LegacyModelError(
            f"the archive unpacks to {claimed} bytes, expected at most "
            f"{limits.ARCHIVE_BYTES}.",
            code="KP201",
        )


def check_expansion(part: str, claimed: int, stored: int, small: int) -> None:
    """Raise if a part of a file claims to unpack to too many bytes.

    `stored` bytes in the file may unpack to `limits.EXPANSION` times as many, plus
    `small`.
    """
    if claimed > limits.EXPANSION * stored + small:
        raise LegacyModelError(
            f"{part} claims {claimed} bytes, and {stored} are there: expected at most "
            f"{limits.EXPANSION} times as many.",
            "If you trust it, store it unpacked: HDF5 with `h5repack -f NONE`, a "
            ".keras file with `zip -0`.",
            code="KP201",
        )
