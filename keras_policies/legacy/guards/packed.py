"""Limits for archives from strangers: names, kinds, counts and sizes."""

import io
import pathlib
import stat
import sys

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.guards import expansion

MAX_ENTRIES = 10_000  # files and folders; the largest of tf.keras's models have 100s
MAX_NAME_BYTES, MAX_PART_BYTES, MAX_DEPTH = 1024, 255, 32
MAX_UNPACKED_BYTES = 64 * 1024**3  # of all files
# Of one read. Contents are copied in small pieces: what is larger is a header that
# would be held in memory.
MAX_READ_BYTES = 8 * 1024**2
# What a path in an archive never contains: another drive, or a way of Windows.
FORBIDDEN = "\0", "\\", ":"
OUTSIDE = "its path leads out of the folder to unpack to, or is written as on Windows"


class SmallReads(io.FileIO):
    """A file that refuses reads of more than `MAX_READ_BYTES`."""

    def read(self, size: int | None = -1) -> bytes:
        """Return at most `size` bytes, or the rest."""
        wanted = sys.maxsize if size is None or size < 0 else size
        left = pathlib.Path(self.name).stat().st_size - self.tell()
        if min(wanted, left) > MAX_READ_BYTES:
            raise LegacyModelError(
                f"a header of the archive has {min(wanted, left)} bytes: at most "
                f"{MAX_READ_BYTES} are read."
            )
        return super().read(wanted if wanted <= MAX_READ_BYTES else -1) or b""


def check_entry(name: str, mode: int) -> None:
    """Raise if an entry would be written outside of its folder, or is no plain file.

    `mode` has the type of the file, as in `os.stat_result.st_mode`; 0 if none is given.
    """
    parts = pathlib.PurePosixPath(name).parts
    is_inside = name and not name.startswith("/") and ".." not in parts
    if not is_inside or any(text in name for text in FORBIDDEN):
        raise _refused(name, OUTSIDE)
    sizes = [len(part.encode(errors="replace")) for part in parts]
    is_short = sum(sizes) <= MAX_NAME_BYTES and max(sizes, default=0) <= MAX_PART_BYTES
    if not is_short or len(parts) > MAX_DEPTH:
        raise _refused(name[:MAX_PART_BYTES] + "…", "its path is too long or too deep")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise _refused(name, "it is a link or a device, not a file or a folder")


def _refused(name: str, reason: str) -> LegacyModelError:
    return LegacyModelError(
        f"{name!r} in the archive is refused: {reason}.",
        "If you trust it, unpack it, and pass the model in it.",
    )


def check_unpacked(claimed: int, packed: int) -> None:
    """Raise if an archive of `packed` bytes may not unpack to `claimed` bytes."""
    expansion.check("the archive", claimed, packed, expansion.SMALL_FILE_BYTES)
    if claimed > MAX_UNPACKED_BYTES:
        raise LegacyModelError(
            f"the archive unpacks to {claimed} bytes: at most {MAX_UNPACKED_BYTES} are "
            "written."
        )
