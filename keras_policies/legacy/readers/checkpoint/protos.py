"""The fields that we read of TensorFlow's protocol buffers.

They live in a descriptor pool and a package of our own: TensorFlow, imported in
the same process, registers the same messages in the default pool. Unknown fields
are skipped by the protobuf runtime.

Sources: tensorflow/core/protobuf/{saved_model, meta_graph, saved_object_graph,
trackable_object_graph, tensor_bundle}.proto, tensorflow/core/framework/
{tensor_shape, versions, types, graph, node_def, attr_value, tensor}.proto,
keras/protobuf/saved_metadata.proto.
"""

import functools

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message,
    message_factory,
)

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.readers.checkpoint import sorted_table

_PACKAGE = "keras_policies.legacy"
VARINT, FIXED_64, LENGTH, FIXED_32 = 0, 1, 2, 5  # wire types
MAX_MESSAGES = 3_000_000
UNCOUNTED_BYTES = 1024 * 1024  # too few for so many messages as to matter

# Message -> {field: (number, type)}. A list is a repeated field; a type that is
# no scalar names another message.
_MESSAGES = {
    "Versions": {"producer": (1, "int32"), "min_consumer": (2, "int32")},
    "Dimension": {"size": (1, "int64")},
    "Shape": {"dim": (2, ["Dimension"]), "unknown_rank": (3, "bool")},
    # tensor_bundle.proto
    "BundleHeader": {
        "num_shards": (1, "int32"),
        "endianness": (2, "int32"),
        "version": (3, "Versions"),
    },
    "BundleEntry": {
        "dtype": (1, "int32"),
        "shape": (2, "Shape"),
        "shard_id": (3, "int32"),
        "offset": (4, "int64"),
        "size": (5, "int64"),
        "crc32c": (6, "fixed32"),
        "slices": (7, ["Slice"]),
    },
    "Slice": {},
    # trackable_object_graph.proto
    "Child": {"node_id": (1, "int32"), "local_name": (2, "string")},
    "Slot": {
        "original_variable_node_id": (1, "int32"),
        "slot_name": (2, "string"),
        "slot_variable_node_id": (3, "int32"),
    },
    "Attribute": {
        "name": (1, "string"),
        "full_name": (2, "string"),
        "checkpoint_key": (3, "string"),
    },
    "CheckpointObject": {
        "children": (1, ["Child"]),
        "attributes": (2, ["Attribute"]),
        "slot_variables": (3, ["Slot"]),
    },
    "CheckpointGraph": {"nodes": (1, ["CheckpointObject"])},
    # saved_object_graph.proto, meta_graph.proto, saved_model.proto
    "UserObject": {
        "identifier": (1, "string"),
        "version": (2, "Versions"),
        "metadata": (3, "string"),
    },
    "SavedVariable": {
        "dtype": (1, "int32"),
        "shape": (2, "Shape"),
        "trainable": (3, "bool"),
        "name": (6, "string"),
    },
    "SavedAsset": {"asset_file_def_index": (1, "int32")},
    "SavedFunction": {"concrete_functions": (1, ["string"])},
    "SavedConstant": {"operation": (1, "string")},
    "SavedObject": {
        "children": (1, ["Child"]),
        "slot_variables": (3, ["Slot"]),
        "user_object": (4, "UserObject"),
        "asset": (5, "SavedAsset"),
        "function": (6, "SavedFunction"),
        "variable": (7, "SavedVariable"),
        "constant": (9, "SavedConstant"),
    },
    # Functions and graphs are large, and seldom needed: parsed when they are.
    "SavedObjectGraph": {
        "nodes": (1, ["SavedObject"]),
        "concrete_functions": (2, ["bytes"]),
    },
    "ConcreteFunction": {"bound_inputs": (2, ["int32"])},
    "NamedConcreteFunction": {"key": (1, "string"), "value": (2, "ConcreteFunction")},
    "AssetFile": {"filename": (2, "string")},
    # graph.proto, node_def.proto, attr_value.proto, tensor.proto
    "Tensor": {
        "dtype": (1, "int32"),
        "tensor_shape": (2, "Shape"),
        "tensor_content": (4, "bytes"),
        "int_val": (7, ["int32"]),
        "string_val": (8, ["bytes"]),
        "int64_val": (10, ["int64"]),
    },
    "AttrValue": {"tensor": (8, "Tensor")},
    "Attr": {"key": (1, "string"), "value": (2, "AttrValue")},
    "Node": {"name": (1, "string"), "op": (2, "string"), "attr": (5, ["Attr"])},
    "Graph": {"node": (1, ["Node"])},
    "MetaInfo": {"tags": (4, ["string"]), "tensorflow_version": (5, "string")},
    "TensorInfo": {"dtype": (2, "int32"), "tensor_shape": (3, "Shape")},
    "Input": {"key": (1, "string"), "value": (2, "TensorInfo")},
    "Signature": {"inputs": (1, ["Input"])},
    "NamedSignature": {"key": (1, "string"), "value": (2, "Signature")},
    "MetaGraph": {
        "meta_info_def": (1, "MetaInfo"),
        "graph_def": (2, "bytes"),
        "signature_def": (5, ["NamedSignature"]),
        "asset_file_def": (6, ["AssetFile"]),
        "object_graph_def": (7, "SavedObjectGraph"),
    },
    "SavedModel": {
        "saved_model_schema_version": (1, "int64"),
        "meta_graphs": (2, ["MetaGraph"]),
    },
    # saved_metadata.proto
    "KerasObject": {
        "node_id": (2, "int32"),
        "node_path": (3, "string"),
        "identifier": (4, "string"),
        "metadata": (5, "string"),
    },
    "KerasMetadata": {"nodes": (1, ["KerasObject"])},
}


def _field(name, number, kind):
    field = descriptor_pb2.FieldDescriptorProto(name=name, number=number)
    repeated = isinstance(kind, list)
    kind = kind[0] if repeated else kind
    field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
    if kind in _MESSAGES:
        field.type, field.type_name = field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    else:
        field.type = getattr(field, f"TYPE_{kind.upper()}")
    return field


@functools.cache
def _pool():
    file = descriptor_pb2.FileDescriptorProto(
        name="keras_policies/legacy.proto", package=_PACKAGE, syntax="proto3"
    )
    for message_name, fields in _MESSAGES.items():
        described = file.message_type.add(name=message_name)
        described.field.extend(
            _field(name, number, kind) for name, (number, kind) in fields.items()
        )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


@functools.cache
def _message_class(name):
    described = _pool().FindMessageTypeByName(f"{_PACKAGE}.{name}")
    return message_factory.GetMessageClass(described)


def _fields(data, start, end):
    """Yield `(number, wire type, start, end)` of the fields in a part of `data`."""
    while start < end:
        key, start = sorted_table.read_varint(data, start)
        wire = key & 7
        if wire == LENGTH:
            size, start = sorted_table.read_varint(data, start)
            following = start + size
        elif wire == VARINT:
            _, following = sorted_table.read_varint(data, start)
        else:
            following = start + {FIXED_32: 4, FIXED_64: 8}.get(wire, end)
        if following > end:
            raise sorted_table.CorruptError("a field reaches past its message")
        yield key >> 3, wire, start, following
        start = following


def count_messages(name, data, where):
    """Raise if there are more messages in `data` than memory should be filled with.

    A message of two bytes takes a hundred once it is parsed.

    Args:
        name: str, a message of `_MESSAGES`.
        data: bytes.
        where: what `data` is, for the error.
    """
    queue, count = [(name, 0, len(data))], 1
    try:
        while queue:
            kind, start, end = queue.pop()
            inner = _inner_messages(kind)
            for number, wire, begins, ends in _fields(data, start, end):
                if number in inner and wire == LENGTH:
                    count += 1
                    if begins < ends:
                        queue.append((inner[number], begins, ends))
                if count > MAX_MESSAGES:
                    raise sorted_table.CorruptError(
                        f"more than {MAX_MESSAGES} messages are in it"
                    )
    except sorted_table.CorruptError as error:
        raise LegacyModelError(f"{where}: not a TensorFlow {name}: {error}.") from error


@functools.cache
def _inner_messages(name):
    """Return `{number: message}` of the fields of a message that hold messages."""
    kinds = _MESSAGES[name].values()
    single = [(n, kind[0] if isinstance(kind, list) else kind) for n, kind in kinds]
    return {number: kind for number, kind in single if kind in _MESSAGES}


def parse(name, data, where):
    """Return the message `name` parsed from `data`.

    Args:
        name: str, a message of `_MESSAGES`.
        data: bytes.
        where: what `data` is, for the error: a path, or a path and a key.

    Raises:
        LegacyModelError: if `data` is no such message.
    """
    parsed = _message_class(name)()
    if len(data) > UNCOUNTED_BYTES:
        count_messages(name, data, where)
    try:
        parsed.ParseFromString(data)
    except (message.DecodeError, UnicodeDecodeError) as error:
        raise LegacyModelError(
            f"{where}: not a TensorFlow {name} ({len(data)} bytes: {error}). The file "
            "is truncated or corrupt, or not what its name says."
        ) from error
    return parsed
