"""Limits how many messages are parsed, as a small file can hold very many of them."""

import functools
from collections.abc import Iterator

from google.protobuf import descriptor

from keras_policies.legacy.readers.checkpoint.wire import CorruptError, read_varint

VARINT, FIXED_64, LENGTH, FIXED_32 = 0, 1, 2, 5  # wire types
MAX_MESSAGES = 3_000_000


def check(kind: descriptor.Descriptor, data: bytes) -> None:
    """Raise if parsing a message of a kind from `data` would take too much memory.

    A message of two bytes takes a hundred once it is parsed.
    """
    queue, count = [(kind, 0, len(data))], 1
    while queue:
        kind, start, end = queue.pop()
        inner = _inner_messages(kind)
        for number, wire, begins, ends in _fields(data, start, end):
            if number in inner and wire == LENGTH:
                count += 1
                if begins < ends:
                    queue.append((inner[number], begins, ends))
            if count > MAX_MESSAGES:
                raise CorruptError(f"more than {MAX_MESSAGES} messages are in it")


@functools.cache
def _inner_messages(kind: descriptor.Descriptor) -> dict[int, descriptor.Descriptor]:
    """Return `{number: its kind}` of the fields of a message that hold messages."""
    fields = kind.fields
    return {item.number: item.message_type for item in fields if item.message_type}


def _fields(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield `(number, wire type, start, end)` of the fields in a part of `data`."""
    while start < end:
        key, start = read_varint(data, start)
        wire = key & 7
        if wire == LENGTH:
            size, start = read_varint(data, start)
            following = start + size
        elif wire == VARINT:
            _, following = read_varint(data, start)
        else:
            following = start + {FIXED_32: 4, FIXED_64: 8}.get(wire, end)
        if following > end:
            raise CorruptError("a field reaches past its message")
        yield key >> 3, wire, start, following
        start = following
