"""Parses TensorFlow's protocol buffers with the `protobuf` runtime.

The messages live in a descriptor pool and a package of our own: TensorFlow, imported
in the same process, registers the same messages in the default pool. The runtime skips
fields that `messages.py` does not list.
"""

import functools
from typing import Any, TypeAlias

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message,
    message_factory,
)

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.readers.checkpoint import message_count
from keras_policies.legacy.readers.checkpoint.messages import MESSAGES
from keras_policies.legacy.readers.checkpoint.wire import CorruptError

Message: TypeAlias = Any  # its fields are those in `MESSAGES`
_PACKAGE = "keras_policies.legacy"
UNCOUNTED_BYTES = 1024 * 1024  # too few to hold a harmful number of messages


def _field(
    name: str, number: int, kind: str | list[str]
) -> descriptor_pb2.FieldDescriptorProto:
    field = descriptor_pb2.FieldDescriptorProto(name=name, number=number)
    repeated = isinstance(kind, list)
    kind = kind[0] if isinstance(kind, list) else kind
    field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
    if kind in MESSAGES:
        field.type, field.type_name = field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    else:
        field.type = getattr(field, f"TYPE_{kind.upper()}")
    return field


@functools.cache
def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(
        name="keras_policies/legacy.proto", package=_PACKAGE, syntax="proto3"
    )
    for message_name, fields in MESSAGES.items():
        described = file.message_type.add(name=message_name)
        described.field.extend(
            _field(name, number, kind) for name, (number, kind) in fields.items()
        )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


@functools.cache
def _message_class(name: str) -> Any:
    described = _pool().FindMessageTypeByName(f"{_PACKAGE}.{name}")
    return message_factory.GetMessageClass(described)


def parse(name: str, data: bytes) -> Message:
    """Return the message `name` parsed from `data`.

    Args:
        name: str, one of `MESSAGES`.
        data: bytes.

    Raises:
        LegacyModelError: if `data` is no such message.

    Example:
        >>> parse("Versions", bytes([8, 26])).producer
        26
    """
    parsed = _message_class(name)()
    try:
        if len(data) > UNCOUNTED_BYTES:
            message_count.check(name, data)
        parsed.ParseFromString(data)
    except (CorruptError, message.DecodeError, UnicodeDecodeError) as error:
        raise LegacyModelError(
            f"not a TensorFlow {name} ({len(data)} bytes: {error}). It is truncated "
            "or corrupt, or not what its name says."
        ) from error
    return parsed
