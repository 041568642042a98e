"""Limits how many messages are parsed, as a small file can hold very many of them."""

import functools
from collections.abc import Iterator

from keras_policies.legacy.readers.checkpoint.messages import MESSAGES
from keras_policies.legacy.readers.checkpoint.wire import CorruptError, read_varint

VARINT, FIXED_64, LENGTH, FIXED_32 = 0, 1, 2, 5  # wire types
MAX_MESSAGES = 3_000_000


def check(name: str, data: bytes) -> None:
    """Raise if parsing the message `name` in `data` would take too much memory.

    A message of two bytes takes a hundred once it is parsed.

    Raises:
        CorruptError: if there are more than `MAX_MESSAGES` below it.
    """
    queue, count = [(name, 0, len(data))], 1
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
def _inner_messages(name: str) -> dict[int, str]:
    """Return `{number: message}` of the fields of a message that hold messages."""
    kinds = MESSAGES[name].values()
    single = [(n, kind[0] if isinstance(kind, list) else kind) for n, kind in kinds]
    return {number: kind for number, kind in single if kind in MESSAGES}


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
