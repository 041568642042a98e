"""Names temporary folders after their process; removes those whose process ended.

A process that is killed cannot remove its folder; the next one that writes there does.
"""

import contextlib
import functools
import os
import pathlib
import platform
import re
import shutil
import sys
import time
import zlib

NAME = re.compile(r"\.kp-([0-9a-f]{8})-(\d+)-[0-9a-z_]{8}")
DAY = 86_400  # seconds; no file takes as long. Another computer's process may be alive


def prefix() -> str:
    """Return the beginning of a name for a temporary folder of this process."""
    return f".kp-{_computer()}-{os.getpid()}-"


def remove_from(folder: pathlib.Path) -> None:
    """Remove temporary folders whose process has ended; once, as folders can be large.

    A folder of another computer, which shares the file system, is removed after a day.
    """
    _remove_from(os.path.abspath(folder))


@functools.cache
def _remove_from(folder: str) -> None:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = entry.is_dir(follow_symlinks=False) and NAME.fullmatch(entry.name)
            if match and _is_left(entry, *match.groups()):
                shutil.rmtree(entry.path, ignore_errors=True)


@functools.cache
def _computer() -> str:
    """Return what tells apart computers, and containers with processes of their own."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:  # not Linux
        namespace = ""
    return f"{zlib.crc32(f'{platform.node()} {namespace}'.encode()):08x}"


def _is_left(entry: "os.DirEntry[str]", computer: str, process: str) -> bool:
    if computer == _computer() and sys.platform != "win32":
        try:
            os.kill(int(process), 0)  # asks; on Windows, it would end the process
        except (ProcessLookupError, OverflowError):
            return True
        except PermissionError:  # another user's
            return False
        return False
    try:
        return entry.stat(follow_symlinks=False).st_mtime < time.time() - DAY
    except OSError:
        return False
