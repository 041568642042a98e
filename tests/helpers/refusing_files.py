"""A folder that refuses what some file systems refuse, with FUSE and fusepy.

    python refusing_files.py ROOT MOUNT link=EPERM,fsync=EINVAL,colon,nocase

link=ENOSYS is Google Drive in Colab, link=EPERM FAT and exFAT, fsync=EINVAL some
network shares; colon and nocase are names as on Windows.
"""

import errno
import os
import shutil
import sys

try:
    from fuse import FUSE, FuseOSError, Operations
except (ImportError, OSError):  # OSError: the library is missing
    FUSE, FuseOSError, Operations = None, OSError, object


def is_possible():
    """Return whether this system can mount such a folder."""
    return (
        FUSE is not None and os.path.exists("/dev/fuse") and shutil.which("fusermount")
    )


def passed_on(function):
    def call(self, *args):
        try:
            return function(self, *args)
        except FuseOSError:
            raise
        except OSError as error:
            raise FuseOSError(error.errno) from error

    return call


class Refusing(Operations):
    def __init__(self, root, refused):
        self.root = root
        parts = [part.partition("=")[::2] for part in refused.split(",")]
        self.refused = dict(parts)

    def refuse(self, what):
        if what in self.refused:
            raise FuseOSError(getattr(errno, self.refused[what] or "EPERM"))

    def path(self, path):
        if "colon" in self.refused and any(c in path for c in ':*?"<>|'):
            raise FuseOSError(errno.EINVAL)
        if "nocase" not in self.refused:
            return self.root + path
        here = self.root
        for part in filter(None, path.split("/")):
            names = os.listdir(here) if os.path.isdir(here) else []
            here = os.path.join(
                here, next((n for n in names if n.lower() == part.lower()), part)
            )
        return here

    @passed_on
    def getattr(self, path, fh=None):
        found = os.lstat(self.path(path))
        names = "atime", "ctime", "gid", "mode", "mtime", "nlink", "size", "uid"
        return {f"st_{name}": getattr(found, f"st_{name}") for name in names}

    @passed_on
    def readdir(self, path, fh):
        return [".", "..", *os.listdir(self.path(path))]

    @passed_on
    def link(self, target, source):
        self.refuse("link")
        os.link(self.path(source), self.path(target))

    @passed_on
    def symlink(self, name, target):
        self.refuse("symlink")
        os.symlink(target, self.path(name))

    @passed_on
    def rename(self, old, new):
        self.refuse("rename")
        os.rename(self.path(old), self.path(new))

    @passed_on
    def chmod(self, path, mode):
        self.refuse("chmod")
        os.chmod(self.path(path), mode)

    @passed_on
    def fsync(self, path, only_data, fh):
        self.refuse("fsync")
        os.fsync(fh)

    @passed_on
    def create(self, path, mode, fi=None):
        return os.open(self.path(path), os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)

    mkdir = passed_on(lambda self, path, mode: os.mkdir(self.path(path), mode))
    rmdir = passed_on(lambda self, path: os.rmdir(self.path(path)))
    unlink = passed_on(lambda self, path: os.unlink(self.path(path)))
    readlink = passed_on(lambda self, path: os.readlink(self.path(path)))
    utimens = passed_on(lambda self, path, times=None: os.utime(self.path(path), times))
    open = passed_on(lambda self, path, flags: os.open(self.path(path), flags))
    read = passed_on(lambda self, path, size, offset, fh: os.pread(fh, size, offset))
    write = passed_on(lambda self, path, data, offset, fh: os.pwrite(fh, data, offset))
    truncate = passed_on(
        lambda self, path, size, fh=None: os.truncate(self.path(path), size)
    )
    release = passed_on(lambda self, path, fh: os.close(fh))
    flush = passed_on(lambda self, path, fh: 0)


if __name__ == "__main__":
    root, mount, refused = (*sys.argv[1:], "")[:3]
    FUSE(
        Refusing(os.path.abspath(root), refused), mount, foreground=True, nothreads=True
    )
