"""Parses TensorFlow's protocol buffers with the `protobuf` runtime.

The messages live in a descriptor pool and a package of our own: TensorFlow, imported
in the same process, registers the same messages in the default pool. The runtime skips
fields that `messages.py` does not list.
"""

import functools
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
from google.protobuf.descriptor import Descriptor

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.guards import limits
from keras_policies.legacy.readers.checkpoint.messages import MESSAGES
from keras_policies.legacy.readers.checkpoint.wire import CorruptError, read_varint

Message: TypeAlias = Any  # its fields are those in messages.py
PACKAGE = "keras_policies.legacy"
MESSAGE = re.compile(r"message (\w+) \{(.*?)\}", re.DOTALL)
FIELD = re.compile(r"(repeated |optional )?(\w+) (\w+) = (\d+);")
VARINT, FIXED_64, LENGTH, FIXED_32 = 0, 1, 2, 5  # wire types


@functools.cache
def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(
        name="keras_policies/legacy.proto", package=PACKAGE, syntax="proto3"
    )
    for name, fields in MESSAGE.findall(MESSAGES):
        described = file.message_type.add(name=name)
        for label, kind, field_name, number in FIELD.findall(fields):
            field = described.field.add(name=field_name, number=int(number))
            is_repeated = label == "repeated "
            field.label = field.LABEL_REPEATED if is_repeated else field.LABEL_OPTIONAL
            if label == "optional ":  # says whether it is there, as in a `oneof`
                field.proto3_optional = True
                field.oneof_index = len(described.oneof_decl)
                described.oneof_decl.add(name=f"_{field_name}")
            if kind[0].isupper():
                field.type, field.type_name = field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
            else:
                field.type = getattr(field, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


@functools.cache
def _message_class(name: str) -> Any:
    described = _pool().FindMessageTypeByName(f"{PACKAGE}.{name}")
    return message_factory.GetMessageClass(described)


def parse(name: str, data: bytes, most: int = limits.MESSAGES) -> Message:
    """Return the message `name` of messages.py, parsed from `data`.

    If there is much data, it may hold `most` messages.

    Example:
        >>> parse("Versions", bytes([8, 26])).producer
        26
    """
    parsed = _message_class(name)()
    try:
        if len(data) > limits.UNCOUNTED_BYTES:
            _check_count(parsed.DESCRIPTOR, data, most)
        parsed.ParseFromString(data)
    except (CorruptError, message.DecodeError, UnicodeDecodeError) as error:
        raise LegacyModelError(
            f"not a TensorFlow {name} ({len(data)} bytes: {error}). It is truncated "
            "or corrupt, or not what its name says."
        ) from error
    return parsed


def _check_count(kind: Descriptor, data: bytes, most: int) -> None:
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
            if count > most:
                raise CorruptError(f"more than {most} messages are in it")


@functools.cache
def _inner_messages(kind: Descriptor) -> dict[int, Descriptor]:
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
