"""Parses TensorFlow's protocol buffers with the `protobuf` runtime.

The messages live in a descriptor pool and a package of our own: TensorFlow, imported
in the same process, registers the same messages in the default pool. The runtime skips
fields that `messages.py` does not list.
"""

import functools
import re
from typing import Any, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.readers.checkpoint import message_count
from keras_policies.legacy.readers.checkpoint.messages import MESSAGES
from keras_policies.legacy.readers.checkpoint.wire import CorruptError

Message: TypeAlias = Any  # its fields are those in messages.py
PACKAGE = "keras_policies.legacy"
MESSAGE = re.compile(r"message (\w+) \{(.*?)\}", re.DOTALL)
FIELD = re.compile(r"(repeated )?(\w+) (\w+) = (\d+);")
UNCOUNTED_BYTES = 1024 * 1024  # too few to hold a harmful number of messages


@functools.cache
def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(
        name="keras_policies/legacy.proto", package=PACKAGE, syntax="proto3"
    )
    for name, fields in MESSAGE.findall(MESSAGES):
        described = file.message_type.add(name=name)
        for repeated, kind, field_name, number in FIELD.findall(fields):
            field = described.field.add(name=field_name, number=int(number))
            field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
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


def parse(name: str, data: bytes) -> Message:
    """Return the message `name` of messages.py, parsed from `data`.

    Raises:
        LegacyModelError: if `data` is no such message.

    Example:
        >>> parse("Versions", bytes([8, 26])).producer
        26
    """
    parsed = _message_class(name)()
    try:
        if len(data) > UNCOUNTED_BYTES:
            message_count.check(parsed.DESCRIPTOR, data)
        parsed.ParseFromString(data)
    except (CorruptError, message.DecodeError, UnicodeDecodeError) as error:
        raise LegacyModelError(
            f"not a TensorFlow {name} ({len(data)} bytes: {error}). It is truncated "
            "or corrupt, or not what its name says."
        ) from error
    return parsed
