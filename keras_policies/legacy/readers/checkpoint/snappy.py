"""Unpacks Snappy, with which some builds of TensorFlow pack the blocks of an index.

Source: google/snappy, format_description.txt.
"""

from keras_policies.legacy.guards import budget
from keras_policies.legacy.readers.checkpoint.protos import CorruptError, read_varint

LITERAL = 0
LONG = 60  # lengths of literals from here on say how many bytes hold the length


def unpacked(data: bytes) -> bytes:
    """Return the bytes that `data` is the compressed form of; they are charged.

    Example:
        >>> unpacked(bytes([9, 8]) + b"abc" + bytes([9, 3]))
        b'abcabcabc'
    """
    size, position = read_varint(data, 0)
    budget.spend(size, 1)
    found = bytearray()
    while position < len(data):
        tag = data[position]
        position += 1
        if tag & 3 == LITERAL:
            length, position = _length(data, position, tag >> 2)
            found += data[position : position + length]
            position += length
        else:
            length, offset, position = _copy(data, position, tag)
            if not 0 < offset <= len(found):
                raise CorruptError(f"a copy of {length} bytes begins before the start")
            repeated = found[-offset:] * (length // offset + 1)
            found += repeated[:length]
        if len(found) > size:
            break
    if len(found) != size or position != len(data):
        raise CorruptError(f"a packed block does not unpack to its {size} bytes")
    return bytes(found)


def _length(data: bytes, position: int, number: int) -> tuple[int, int]:
    """Return the length of a literal, and where it begins."""
    width = max(0, number - LONG + 1)
    if width:
        number = int.from_bytes(data[position : position + width], "little")
    return number + 1, position + width


def _copy(data: bytes, position: int, tag: int) -> tuple[int, int, int]:
    """Return the length of a copy, how far back it begins, and what comes next."""
    if tag & 3 == 1:
        low = data[position] if position < len(data) else 0
        return 4 + (tag >> 2 & 7), (tag >> 5) << 8 | low, position + 1
    width = 2 if tag & 3 == 2 else 4
    offset = int.from_bytes(data[position : position + width], "little")
    return 1 + (tag >> 2), offset, position + width
