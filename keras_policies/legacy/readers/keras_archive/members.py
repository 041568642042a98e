"""Reads the members of a `.keras` file, which is a zip, within limits."""

import contextlib
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO

from keras_policies.legacy.base.errors import FilePath, LegacyModelError
from keras_policies.legacy.guards import expansion, json_text

METADATA, CONFIG, WEIGHTS = "metadata.json", "config.json", "model.weights.h5"
MAX_METADATA_BYTES = 64 * 1024
COPY_BYTES = 1024 * 1024
# What reading a member raises: the modules of each packing have errors of their own.
BROKEN = (
    EOFError,
    OSError,
    RuntimeError,
    lzma.LZMAError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


def open_archive(path: FilePath) -> zipfile.ZipFile:
    """Return the open zip at `path`."""
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise LegacyModelError(
            f"not a readable .keras file: {error}. It is truncated or corrupt."
        ) from error


@contextlib.contextmanager
def _opened(archive: zipfile.ZipFile, name: str) -> Iterator[zipfile.ZipInfo]:
    """Yield the description of a member; errors in this context name the member."""
    try:
        yield archive.getinfo(name)
    except KeyError:
        raise LegacyModelError(
            f"a zip file, but no Keras model: {name} is missing."
        ) from None
    except BROKEN as error:
        raise LegacyModelError(f"{name}: {error}.") from error


def read(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """Return a member that must have at most `limit` bytes."""
    with _opened(archive, name) as info:
        if info.file_size > limit:
            raise LegacyModelError(
                f"{name}: {info.file_size} bytes, expected at most {limit}."
            )
        with archive.open(info) as member:
            return member.read(limit)


def keras_version(archive: zipfile.ZipFile) -> str:
    """Return the version of Keras that wrote the archive, such as `"2.15.0"`."""
    text = read(archive, METADATA, MAX_METADATA_BYTES)
    return str(json_text.decode(text, METADATA).get("keras_version", "unknown"))


def unpack_weights(archive: zipfile.ZipFile, unpacked: IO[bytes]) -> None:
    """Copy the HDF5 file of the weights into an open file."""
    with _opened(archive, WEIGHTS) as info:
        left, small = info.file_size, expansion.SMALL_FILE_BYTES
        expansion.check(WEIGHTS, left, info.compress_size, small)
        with archive.open(info) as member:
            while left and (chunk := member.read(min(left, COPY_BYTES))):
                unpacked.write(chunk)
                left -= len(chunk)
    unpacked.seek(0)
