"""Reads a tensor from a shard of a TensorFlow checkpoint, its checksum verified.

Source: tensorflow/core/util/tensor_bundle/tensor_bundle.{h,cc}.
"""

import dataclasses
import math
import pathlib
from typing import Any

import google_crc32c
import ml_dtypes
import numpy as np

from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.base.model import Array
from keras_policies.legacy.readers.checkpoint.wire import (
    CorruptError,
    mask,
    read_varint,
)

STRING = 7
# tensorflow/core/framework/types.proto
DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype("float32"),
    2: np.dtype("float64"),
    3: np.dtype("int32"),
    4: np.dtype("uint8"),
    5: np.dtype("int16"),
    6: np.dtype("int8"),
    STRING: np.dtype(object),
    8: np.dtype("complex64"),
    9: np.dtype("int64"),
    10: np.dtype("bool"),
    14: np.dtype(ml_dtypes.bfloat16),
    17: np.dtype("uint16"),
    18: np.dtype("complex128"),
    19: np.dtype("float16"),
    22: np.dtype("uint32"),
    23: np.dtype("uint64"),
}
CHECKSUM_CHUNK_BYTES = 16 * 1024 * 1024


@dataclasses.dataclass(frozen=True)
class TensorEntry:
    """The place of a tensor in a checkpoint; nothing of it is read yet."""

    key: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    shard: pathlib.Path
    offset: int  # bytes
    size: int  # bytes
    crc32c: int  # masked
    big_endian: bool


def read_tensor(entry: TensorEntry) -> Array:
    """Return a tensor as a read-only array, memory-mapped; strings as objects.

    Raises:
        LegacyModelError: if its checksum does not match.
    """
    with located(entry.shard):
        return _read_tensor(entry)


def _read_tensor(entry: TensorEntry) -> Array:
    data: Array = np.empty(0, "uint8")
    if entry.size:
        data = np.memmap(
            entry.shard, np.uint8, "r", offset=entry.offset, shape=(entry.size,)
        )
    if entry.dtype == DTYPES[STRING]:
        return _read_strings(entry, data.tobytes())
    _verify(entry, _checksum(data))
    dtype = entry.dtype.newbyteorder(">") if entry.big_endian else entry.dtype
    tensor = data.view(dtype).reshape(entry.shape)
    return tensor.astype(entry.dtype) if entry.big_endian else tensor


def _checksum(data: Array) -> int:
    crc = 0
    for start in range(0, len(data), CHECKSUM_CHUNK_BYTES):
        crc = google_crc32c.extend(crc, data[start : start + CHECKSUM_CHUNK_BYTES])
    return crc


def _verify(entry: TensorEntry, crc: int) -> None:
    if mask(crc) != entry.crc32c:
        raise LegacyModelError(
            f"corrupt: the checksum of {entry.key!r} does not match ({entry.size} "
            f"bytes at {entry.offset}).",
            "Copy the file again.",
        )


def _read_strings(entry: TensorEntry, data: bytes) -> Array:
    """Return a string tensor: lengths, their checksum, then the bytes, joined."""
    count, position, crc = math.prod(entry.shape), 0, 0
    if count > entry.size:  # each length takes a byte at least
        raise LegacyModelError(
            f"corrupt: {entry.key!r} claims {count} strings in {entry.size} bytes."
        )
    lengths = []
    try:
        for _ in range(count):
            length, position = read_varint(data, position)
            crc_bytes = 4 if length < 2**32 else 8
            crc = google_crc32c.extend(crc, length.to_bytes(crc_bytes, "little"))
            lengths.append(length)
    except CorruptError as error:
        raise LegacyModelError(f"corrupt: {entry.key!r}: {error}.") from error
    position += 4
    if position + sum(lengths) != len(data):
        raise LegacyModelError(
            f"corrupt: the strings of {entry.key!r} take {position + sum(lengths)} "
            f"bytes, expected {len(data)}."
        )
    _verify(entry, google_crc32c.extend(crc, data[position - 4 :]))
    strings = np.empty(count, object)
    for number, length in enumerate(lengths):
        strings[number] = data[position : position + length]
        position += length
    return strings.reshape(entry.shape)
