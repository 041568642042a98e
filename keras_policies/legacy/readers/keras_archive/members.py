"""Reads the members of a `.keras` file, which is a zip, within limits."""

import zipfile
from typing import IO

from keras_policies.legacy.base.errors import FilePath, LegacyModelError, corrupt
from keras_policies.legacy.guards import expansion, json_text

METADATA, CONFIG, WEIGHTS = "metadata.json", "config.json", "model.weights.h5"
MAX_METADATA_BYTES = 64 * 1024
COPY_BYTES = 1024 * 1024


def open_archive(path: FilePath) -> zipfile.ZipFile:
    """Return the open zip at `path`."""
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        reason = f"not a readable .keras file: {error}. It is truncated or corrupt."
        raise LegacyModelError(reason) from error


def _info(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    try:
        return archive.getinfo(name)
    except KeyError:
        reason = f"a zip file, but no Keras model: {name} is missing."
        raise LegacyModelError(reason) from None


def read(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """Return a member that must have at most `limit` bytes."""
    info = _info(archive, name)
    if info.file_size > limit:
        reason = f"{name}: {info.file_size} bytes, expected at most {limit}."
        raise LegacyModelError(reason)
    with corrupt(str(archive.filename), name), archive.open(info) as member:
        return member.read(limit)


def keras_version(archive: zipfile.ZipFile) -> str:
    """Return the version of Keras that wrote the archive, such as `"2.15.0"`."""
    text = read(archive, METADATA, MAX_METADATA_BYTES)
    return str(json_text.decode(text, METADATA).get("keras_version", "unknown"))


def unpack_weights(archive: zipfile.ZipFile, unpacked: IO[bytes]) -> None:
    """Copy the HDF5 file of the weights into an open file."""
    info = _info(archive, WEIGHTS)
    left, small = info.file_size, expansion.SMALL_FILE_BYTES
    expansion.check(WEIGHTS, left, info.compress_size, small)
    with corrupt(str(archive.filename), WEIGHTS), archive.open(info) as member:
        while left and (chunk := member.read(min(left, COPY_BYTES))):
            unpacked.write(chunk)
            left -= len(chunk)
    unpacked.seek(0)
