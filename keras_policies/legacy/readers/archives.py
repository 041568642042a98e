"""Unpacks `.zip` files and compressed `.tar` files, which need not be trusted."""

import bz2
import gzip
import io
import lzma
import pathlib
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import IO, NamedTuple

from keras_policies._common import files
from keras_policies.legacy.base import errors
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.guards import limits, packed
from keras_policies.legacy.guards.budget import Limit

ZIP, XZ = b"PK\x03\x04", b"\xfd7zXZ\0"
PACKED: Mapping[bytes, Callable[[pathlib.Path], io.BufferedIOBase]] = {
    b"\x1f\x8b": gzip.GzipFile,
    b"BZh": bz2.BZ2File,
}
ENDINGS = ".zip", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2"
ENCRYPTED = 1  # a bit in the flags of a zip entry


class Entry(NamedTuple):
    """A file or a folder in an archive."""

    name: str
    mode: int  # includes the type of the file; 0 if the archive does not record it
    size: int  # bytes
    content: IO[bytes] | None  # None for a folder


def unpack(path: pathlib.Path, folder: pathlib.Path) -> None:
    """Write the files of an archive to an empty folder, or raise `LegacyModelError`.

    Files written before an error stay there.
    """
    with errors.corrupt(path):
        with path.open("rb") as file:
            start = file.read(len(XZ))
        if start.startswith(ZIP):
            _write(_in_zip(path), folder)
            return
        with files.temporary_file() as unzipped:
            files.fill(unzipped, _limited(_chunks(path, start), path.stat().st_size))
            _write(_in_tar(unzipped.fileno()), folder)


def is_packed(start: bytes) -> bool:
    """Return whether a file that begins with these bytes is compressed."""
    return start.startswith((*PACKED, XZ))


def is_keras_file(path: pathlib.Path) -> bool:
    """Return whether a zip is a `.keras` file, or must be read as one."""
    with errors.corrupt(path), packed.SmallReads(path) as file:
        if not zipfile.is_zipfile(file):
            return True  # the reader of .keras files raises the error
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    has_config = {"config.json", "model.weights.h5"}.issubset(names)
    return not names or "metadata.json" in names or has_config


def _in_zip(path: pathlib.Path) -> Iterator[Entry]:
    with packed.SmallReads(path) as file, zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        size = sum(info.file_size for info in members)
        packed.check_unpacked(size, path.stat().st_size)
        for info in members:
            if info.flag_bits & ENCRYPTED:
                hint = "Unpack it with its password."
                raise LegacyModelError("encrypted.", hint, code="KP107")
            mode = info.external_attr >> 16
            if info.is_dir():
                yield Entry(info.filename, stat.S_IFDIR, 0, None)
                continue
            with archive.open(info) as content:
                yield Entry(info.filename, mode, info.file_size, content)


def _chunks(path: pathlib.Path, start: bytes) -> Iterator[bytes]:
    """Yield the uncompressed content of a file that begins with `start`."""
    opener = next((o for begins, o in PACKED.items() if start.startswith(begins)), None)
    if opener is not None:
        with opener(path) as file:
            while chunk := file.read(files.COPY_BYTES):
                yield chunk
        return
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=limits.XZ_BYTES)
    with path.open("rb") as file:
        while not decoder.eof:
            stored = file.read(files.COPY_BYTES) if decoder.needs_input else b""
            if decoder.needs_input and not stored:
                raise LegacyModelError("the archive ends in the middle of a file.")
            yield decoder.decompress(stored, files.COPY_BYTES)
        if decoder.unused_data or file.read(1):
            reason = "several .xz streams in one file; only one is read."
            hint = "Unpack it (tar -xf or xz -d), and pass the model in it."
            raise LegacyModelError(reason, hint)


def _limited(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Yield the content of an archive of `size` bytes; raise if it is too long."""
    done = 0
    for chunk in chunks:
        done += len(chunk)
        packed.check_unpacked(done, size)
        yield chunk


def _in_tar(descriptor: int) -> Iterator[Entry]:
    # By its descriptor, since Windows opens a temporary file only once by its name.
    with packed.SmallReads(descriptor, closefd=False) as file, _open_tar(file) as tar:
        for member in tar:
            file.header = None
            is_plain = member.isreg() and not member.issparse()
            kind = stat.S_IFREG if is_plain else stat.S_IFLNK
            content = tar.extractfile(member) if is_plain else None
            mode = stat.S_IFDIR if member.isdir() else kind
            yield Entry(member.name, mode, member.size, content)
            file.header = tar.offset


def _open_tar(file: packed.SmallReads) -> tarfile.TarFile:
    file.header = file.seek(0)
    try:
        return tarfile.open(fileobj=file, mode="r:")
    except tarfile.ReadError as error:
        raise LegacyModelError(
            f"a packed file without a readable .tar file in it: {error}.",
            "If it is a single compressed file, unpack it (gunzip, bunzip2, xz -d).",
        ) from error


def _write(entries: Iterator[Entry], folder: pathlib.Path) -> None:
    count = Limit(limits.ARCHIVE_ENTRIES, "files and folders in the archive")
    for entry in entries:
        count.spend()
        packed.check_entry(entry.name, entry.mode)
        path = folder / entry.name
        parent = path if entry.content is None else path.parent
        with files.in_temporary_folder():
            parent.mkdir(parents=True, exist_ok=True)
        if entry.content is None:
            continue
        if path.exists():  # also on file systems that ignore case
            raise LegacyModelError(f"{entry.name!r} is in the archive twice.")
        if files.copy(entry.content, path) != entry.size:
            raise LegacyModelError("the archive ends in the middle of a file.")
