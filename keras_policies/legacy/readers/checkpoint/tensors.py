"""Reads a tensor from a shard of a TensorFlow checkpoint, its checksum verified.

Source: tensorflow/core/util/tensor_bundle/tensor_bundle.{h,cc}.
"""

import dataclasses
import math
import pathlib
import re
from typing import Any

import google_crc32c
import ml_dtypes
import numpy as np

from keras_policies import aligned
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.base.model import Array
from keras_policies.legacy.guards import limits
from keras_policies.legacy.readers.checkpoint import wire
from keras_policies.legacy.readers.checkpoint.protos import Message

STRING = 7
# Numbers from tensorflow/core/framework/types.proto, with the dtypes of numpy.
TYPES = """
1 float32  2 float64  3 int32  4 uint8  5 int16  6 int8  7 object  8 complex64  9 int64
10 bool  14 bfloat16  17 uint16  18 complex128  19 float16  22 uint32  23 uint64
"""
DTYPES = {
    int(number): np.dtype(getattr(ml_dtypes, name, name))
    for number, name in re.findall(r"(\d+) (\w+)", TYPES)
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


def check_entry(key: str, parsed: Message, shape: tuple[int, ...]) -> None:
    """Raise if a message `BundleEntry` does not describe a tensor that can be read."""
    if parsed.slices:
        raise LegacyModelError(
            f"{key!r} is stored in slices (a partitioned variable), which this reader "
            "does not join.",
            "Save the model again without a partitioner.",
        )
    if parsed.dtype not in DTYPES:
        raise LegacyModelError(
            f"{key!r} has the unknown data type {parsed.dtype}. The file is corrupt, "
            "or newer than this reader."
        )
    sizes = min((*shape, parsed.offset, parsed.size))
    if sizes < 0 or parsed.shape.unknown_rank or len(shape) > limits.TENSOR_AXES:
        raise LegacyModelError(
            f"{key!r} is corrupt: shape {shape[: limits.TENSOR_AXES]}, {parsed.size} "
            f"bytes at {parsed.offset}."
        )
    dtype = DTYPES[parsed.dtype]
    expected = math.prod(shape) * dtype.itemsize
    if parsed.dtype != STRING and parsed.size != expected:
        raise LegacyModelError(
            f"{key!r} is corrupt: {parsed.size} bytes for the shape {shape} of "
            f"{dtype}, expected {expected}."
        )


def read_tensor(entry: TensorEntry) -> Array:
    """Return a tensor as an array of its own memory; strings as objects."""
    data: Array = aligned.zeros((entry.size,), np.dtype("uint8"))
    with located(entry.shard), entry.shard.open("rb") as shard:
        shard.seek(entry.offset)
        shard.readinto(data.data)
        if entry.dtype == DTYPES[STRING]:
            return _read_strings(entry, data.tobytes())
        crc = 0
        for start in range(0, len(data), CHECKSUM_CHUNK_BYTES):
            crc = google_crc32c.extend(crc, data[start : start + CHECKSUM_CHUNK_BYTES])
        _verify(entry, crc)
    dtype = entry.dtype.newbyteorder(">") if entry.big_endian else entry.dtype
    tensor = data.view(dtype).reshape(entry.shape)
    return tensor.astype(entry.dtype) if entry.big_endian else tensor


def _verify(entry: TensorEntry, crc: int) -> None:
    if wire.mask(crc) != entry.crc32c:
        raise LegacyModelError(
            f"corrupt: the checksum of {entry.key!r} does not match ({entry.size} "
            f"bytes at {entry.offset}).",
            "Copy the file again.",
        )


def _read_strings(entry: TensorEntry, data: bytes) -> Array:
    """Return a string tensor: lengths, their checksum, then the bytes, joined."""
    count, position, crc = math.prod(entry.shape), 0, 0
    if count > entry.size:  # each length takes a byte at least
        reason = f"corrupt: {entry.key!r} claims {count} strings in {entry.size} bytes."
        raise LegacyModelError(reason)
    lengths = []
    try:
        for _ in range(count):
            length, position = wire.read_varint(data, position)
            crc_bytes = 4 if length < 2**32 else 8
            crc = google_crc32c.extend(crc, length.to_bytes(crc_bytes, "little"))
            lengths.append(length)
    except wire.CorruptError as error:
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
