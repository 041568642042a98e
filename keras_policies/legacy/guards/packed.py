"""Checks archives before they are unpacked: names, types and claimed sizes."""

import io
import pathlib
import stat
import sys

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.guards import limits

# Characters that no path in an archive may have: other drives, Windows separators.
FORBIDDEN = "\0", "\\", ":"
OUTSIDE = "its path leads out of the folder to unpack to, or is written as on Windows"


class SmallReads(io.FileIO):
    """A file that refuses reads of more than `limits.ARCHIVE_READ_BYTES`."""

    def read(self, size: int | None = -1) -> bytes:
        """Return at most `size` bytes, or the rest."""
        wanted = sys.maxsize if size is None or size < 0 else size
        rest = pathlib.Path(self.name).stat().st_size - self.tell()
        if min(wanted, rest) > limits.ARCHIVE_READ_BYTES:
            raise LegacyModelError(
                f"a header of the archive has {min(wanted, rest)} bytes: at most "
                f"{limits.ARCHIVE_READ_BYTES} are read.",
                code="KP201",
            )
        return (
            super().read(wanted if wanted <= limits.ARCHIVE_READ_BYTES else -1) or b""
        )


def check_entry(name: str, mode: int) -> None:
    """Raise if an entry would be written outside of its folder, or is not a plain file.

    `mode` has the type of the file, as in `os.stat_result.st_mode`; 0 if none is given.
    """
    parts = pathlib.PurePosixPath(name).parts
    is_inside = name and not name.startswith("/") and ".." not in parts
    if not is_inside or any(text in name for text in FORBIDDEN):
        raise _refused(name, OUTSIDE)
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
            f"the archive unpacks to {claimed} bytes: at most {limits.ARCHIVE_BYTES} "
            "are written.",
            code="KP201",
        )


def check_expansion(part: str, claimed: int, stored: int, small: int) -> None:
    """Raise if a part of a file claims more bytes than those that are stored explain.

    Bytes are `claimed` when unpacked, `stored` in the file; up to `small` more than
    `limits.EXPANSION` explains are allowed.
    """
    if claimed > limits.EXPANSION * stored + small:
        raise LegacyModelError(
            f"{part} claims {claimed} bytes, and {stored} are there: at most "
            f"{limits.EXPANSION} times as many are expected.",
            "If you trust it, store it unpacked: HDF5 with `h5repack -f NONE`, a "
            ".keras file with `zip -0`.",
            code="KP201",
        )
