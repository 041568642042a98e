"""Numbers as LevelDB tables and protocol buffers encode them."""


class CorruptError(Exception):
    """Encoded data is broken; whoever knows what it is makes a `LegacyModelError`."""


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return `(value, next position)` of an unsigned LEB128 integer in `data`."""
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise CorruptError(f"an integer at byte {position} does not end")
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
        shift += 7


def mask(crc: int) -> int:
    """Return the masked form of a CRC-32C, as stored (leveldb util/crc32c.h)."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
