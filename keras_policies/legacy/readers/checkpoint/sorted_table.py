"""Reads the sorted string table that indexes a TensorFlow checkpoint.

LevelDB's table format: data blocks of prefix-compressed keys, an index block, and a
footer that points to it. Every block has a masked CRC-32C; some builds of TensorFlow
compress blocks with Snappy. Sources: leveldb doc/table_format.md,
tensorflow/core/lib/io/format.cc, snappy format_description.txt.
"""

import pathlib
import struct
from collections.abc import Iterator

import google_crc32c

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.guards import budget, limits
from keras_policies.legacy.readers.checkpoint.protos import CorruptError, read_varint

FOOTER_BYTES = 48
MAGIC = 0xDB4775248B80FB57
TRAILER_BYTES = 5  # one byte of compression type, four of checksum
NO_COMPRESSION, SNAPPY = 0, 1
LITERAL = 0  # of Snappy
LONG = 60  # from here on, the number tells how many bytes the length has


def mask(crc: int) -> int:
    """Return a CRC-32C in the masked form that is stored (leveldb util/crc32c.h)."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _block(data: bytes, handle: bytes) -> bytes:
    """Return the bytes of the block at `handle`, after checking its checksum."""
    offset, position = read_varint(handle, 0)
    size, _ = read_varint(handle, position)
    end = offset + size
    if end + TRAILER_BYTES > len(data) - FOOTER_BYTES:
        raise CorruptError(f"a block of {size} bytes at {offset} reaches past the end")
    compression, stored = struct.unpack_from("<BI", data, end)
    if mask(google_crc32c.value(data[offset : end + 1])) != stored:
        raise CorruptError(f"the checksum of the block at byte {offset} does not match")
    if compression == SNAPPY:
        return unpacked(data[offset:end])
    if compression != NO_COMPRESSION:
        raise CorruptError(
            f"the block at byte {offset} is compressed (type {compression}), expected "
            "Snappy or nothing"
        )
    return data[offset:end]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield `(key, value)` of a block; a key shares a prefix with the one before."""
    if len(block) < 4:
        raise CorruptError(f"a block of {len(block)} bytes is too short")
    (restarts,) = struct.unpack_from("<I", block, len(block) - 4)
    end = len(block) - 4 * (restarts + 1)
    position, key = 0, b""
    if end < 0:
        raise CorruptError(f"a block of {len(block)} bytes claims {restarts} restarts")
    while position < end:
        shared, position = read_varint(block, position)
        added, position = read_varint(block, position)
        size, position = read_varint(block, position)
        if shared > len(key) or position + added + size > end:
            raise CorruptError("an entry reaches past the end of its block")
        if shared + added > limits.KEY_BYTES:
            raise CorruptError(f"a key is longer than {limits.KEY_BYTES} bytes")
        key = key[:shared] + block[position : position + added]
        position += added
        yield key, block[position : position + size]
        position += size


def _read(data: bytes) -> dict[bytes, bytes]:
    if len(data) < FOOTER_BYTES:
        raise CorruptError(f"{len(data)} bytes are too few for a table")
    footer = data[-FOOTER_BYTES:]
    (magic,) = struct.unpack_from("<Q", footer, FOOTER_BYTES - 8)
    if magic != MAGIC:
        raise CorruptError("it does not end like a table")
    _, position = read_varint(footer, 0)  # the meta index: offset and size
    _, position = read_varint(footer, position)
    table: dict[bytes, bytes] = {}
    key_bytes, last = 0, None
    for _, handle in _entries(_block(data, footer[position:])):
        for key, value in _entries(_block(data, handle)):
            if last is not None and key <= last:  # also if a block comes twice
                raise CorruptError(f"the key {key[:80]!r} is out of order")
            key_bytes += len(key)
            if key_bytes > limits.ALL_KEYS_BYTES or len(table) == limits.INDEX_ENTRIES:
                raise CorruptError(
                    f"more than {limits.INDEX_ENTRIES} keys, or "
                    f"{limits.ALL_KEYS_BYTES} bytes of them"
                )
            table[key], last = value, key
    return table


def read_table(path: pathlib.Path) -> dict[bytes, bytes]:
    """Return the table in a `.index` file; a tensor takes about a hundred bytes."""
    try:
        if path.stat().st_size > limits.INDEX_BYTES:
            raise CorruptError(f"it is larger than {limits.INDEX_BYTES} bytes")
        return _read(path.read_bytes())
    except (CorruptError, struct.error) as error:
        raise LegacyModelError(
            f"not a readable checkpoint index: {error}.",
            "Copy the file again from its source.",
            path=path,
        ) from error


def unpacked(data: bytes) -> bytes:
    """Decompress what Snappy compressed; the bytes are charged.

    Example:
        >>> unpacked(bytes([9, 8]) + b"abc" + bytes([9, 3]))
        b'abcabcabc'
    """
    size, position = read_varint(data, 0)
    budget.spend(size, 1)
    output = bytearray()
    while position < len(data):
        tag = data[position]
        position += 1
        if tag & 3 == LITERAL:
            length, position = _length(data, position, tag >> 2)
            output += data[position : position + length]
            position += length
        else:
            length, offset, position = _copy(data, position, tag)
            if not 0 < offset <= len(output):
                raise CorruptError(f"a copy of {length} bytes begins before the start")
            repeated = output[-offset:] * (length // offset + 1)
            output += repeated[:length]
        if len(output) > size:
            break
    if len(output) != size or position != len(data):
        raise CorruptError(f"a packed block does not unpack to its {size} bytes")
    return bytes(output)


def _length(data: bytes, position: int, number: int) -> tuple[int, int]:
    """Return the length of a literal, and the position where it begins."""
    width = max(0, number - LONG + 1)
    if width:
        number = int.from_bytes(data[position : position + width], "little")
    return number + 1, position + width


def _copy(data: bytes, position: int, tag: int) -> tuple[int, int, int]:
    """Return the length of a copy, its offset backwards, and the next position."""
    if tag & 3 == 1:
        low = data[position] if position < len(data) else 0
        return 4 + (tag >> 2 & 7), (tag >> 5) << 8 | low, position + 1
    width = 2 if tag & 3 == 2 else 4
    offset = int.from_bytes(data[position : position + width], "little")
    return 1 + (tag >> 2), offset, position + width
