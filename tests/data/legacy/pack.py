"""Packs what one of these scripts wrote; equal files give an equal archive.

    python pack.py ARCHIVE FOLDER

As `python pack.py more.tar.xz OUTDIR`, after `write_more.py OUTDIR` under each release.
"""

import io
import pathlib
import sys
import tarfile

# Nothing of the model is in it.
WITHOUT = ("fingerprint.pb",)
DATE = 946_684_800  # of all files, 2000: a zip file has no dates before 1980


def by_kind(path):
    """Return the order in the archive, where files that are alike are neighbours."""
    return path.name, path.as_posix()


def pack(archive, paths, root):
    """Write files to an archive, each under its path below a folder."""
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        for path in paths:
            if path.name not in WITHOUT:
                info = tarfile.TarInfo(path.relative_to(root).as_posix())
                info.size, info.mtime = path.stat().st_size, DATE
                packed.addfile(info, io.BytesIO(path.read_bytes()))


def main(archive, folder):
    root = pathlib.Path(folder)
    found = (path for path in root.rglob("*") if path.is_file())
    pack(archive, sorted(found, key=by_kind), root)


if __name__ == "__main__":
    main(*sys.argv[1:])
