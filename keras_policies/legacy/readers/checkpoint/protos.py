"""Parses TensorFlow's protocol buffers with the `protobuf` runtime.

The messages have a descriptor pool and a package of their own, because TensorFlow
registers its own in the default pool. The runtime skips fields that we do not list.

Sources: tensorflow/core/protobuf/{saved_model, meta_graph, saved_object_graph,
trackable_object_graph, tensor_bundle, struct}.proto, tensorflow/core/framework/
{tensor_shape, tensor_slice, versions, types, graph, node_def, attr_value, tensor,
function, op_def, variable}.proto, keras/protobuf/saved_metadata.proto.
"""

import functools
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
from google.protobuf.descriptor import Descriptor

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.guards import limits

Message: TypeAlias = Any  # its fields are those in `MESSAGES`
PACKAGE = "keras_policies.legacy"
MESSAGE = re.compile(r"message (\w+) \{(.*?)\}", re.DOTALL)
FIELD = re.compile(r"(repeated |optional )?\b(\w+) (\w+) = (\d+);")
VARINT, FIXED_64, LENGTH, FIXED_32 = 0, 1, 2, 5  # wire types
# In the language of .proto files. Large parts that are seldom needed are `bytes`, which
# are parsed on demand.
MESSAGES = """
message Versions { int32 producer = 1; int32 min_consumer = 2; }
message Dimension { int64 size = 1; }
message Shape { repeated Dimension dim = 2; bool unknown_rank = 3; }

message BundleHeader {
  int32 num_shards = 1; int32 endianness = 2; Versions version = 3;
}
message BundleEntry {
  int32 dtype = 1; Shape shape = 2; int32 shard_id = 3; int64 offset = 4;
  int64 size = 5; fixed32 crc32c = 6; repeated Slice slices = 7;
}
message Extent { int64 start = 1; optional int64 length = 2; }
message Slice { repeated Extent extent = 1; }

message Child { int32 node_id = 1; string local_name = 2; }
message Slot {
  int32 original_variable_node_id = 1; string slot_name = 2;
  int32 slot_variable_node_id = 3;
}
message Attribute { string name = 1; string full_name = 2; string checkpoint_key = 3; }
message CheckpointObject {
  repeated Child children = 1; repeated Attribute attributes = 2;
  repeated Slot slot_variables = 3;
}
message CheckpointGraph { repeated CheckpointObject nodes = 1; }

message UserObject { string identifier = 1; string metadata = 3; }
message SavedVariable { bool trainable = 3; string name = 6; }
message SavedAsset { int32 asset_file_def_index = 1; }
message SavedFunction { repeated string concrete_functions = 1; }
message SavedBareFunction { string concrete_function_name = 1; }
message SavedConstant { string operation = 1; }
message CapturedTensor { string name = 1; string concrete_function = 2; }
message SavedObject {
  repeated Child children = 1; UserObject user_object = 4; SavedAsset asset = 5;
  SavedFunction function = 6; SavedVariable variable = 7;
  bytes bare_concrete_function = 8; SavedConstant constant = 9;
  CapturedTensor captured_tensor = 12;
}
message SavedObjectGraph {
  repeated SavedObject nodes = 1; repeated bytes concrete_functions = 2;
}
message ConcreteFunction {
  repeated int32 bound_inputs = 2; bytes canonicalized_input_signature = 3;
  bytes output_signature = 4;
}
message NamedConcreteFunction { string key = 1; ConcreteFunction value = 2; }
message AssetFile { TensorInfo tensor_info = 1; string filename = 2; }

message TensorSpec { string name = 1; Shape shape = 2; int32 dtype = 3; }
message TypeSpec { string type_spec_class_name = 3; }
message Values { repeated StructuredValue values = 1; }
message NamedValue { string key = 1; StructuredValue value = 2; }
message NamedValues { repeated NamedValue fields = 1; }
message NamedTuple { string name = 1; repeated NamedValue values = 2; }
message Nothing { }
message StructuredValue {
  Nothing none_value = 1; optional double float64_value = 11;
  optional sint64 int64_value = 12; optional string string_value = 13;
  optional bool bool_value = 14; Shape tensor_shape_value = 31;
  optional int32 tensor_dtype_value = 32; TensorSpec tensor_spec_value = 33;
  TypeSpec type_spec_value = 34; TensorSpec bounded_tensor_spec_value = 35;
  Values list_value = 51; Values tuple_value = 52; NamedValues dict_value = 53;
  NamedTuple named_tuple_value = 54;
}

message Tensor {
  int32 dtype = 1; Shape tensor_shape = 2; bytes tensor_content = 4;
  repeated float float_val = 5; repeated double double_val = 6;
  repeated int32 int_val = 7; repeated bytes string_val = 8;
  repeated float scomplex_val = 9; repeated int64 int64_val = 10;
  repeated bool bool_val = 11; repeated double dcomplex_val = 12;
  repeated int32 half_val = 13; repeated uint32 uint32_val = 16;
  repeated uint64 uint64_val = 17;
}
message FunctionName { string name = 1; }
message AttrList {
  repeated bytes s = 2; repeated int64 i = 3; repeated float f = 4; repeated bool b = 5;
  repeated int32 type = 6; repeated Shape shape = 7; repeated Tensor tensor = 8;
  repeated FunctionName func = 9;
}
message AttrValue {
  AttrList list = 1; optional bytes s = 2; optional int64 i = 3; optional float f = 4;
  optional bool b = 5; optional int32 type = 6; Shape shape = 7; Tensor tensor = 8;
  optional string placeholder = 9; FunctionName func = 10;
}
message Attr { string key = 1; AttrValue value = 2; }
message Node {
  string name = 1; string op = 2; repeated string input = 3; repeated Attr attr = 5;
}
message RegisteredGradient { string gradient_func = 1; string registered_op_type = 2; }
message Library {
  repeated bytes function = 1; repeated RegisteredGradient registered_gradients = 3;
}
message Graph { repeated Node node = 1; Library library = 2; }
message Argument { string name = 1; }
message OpDef {
  string name = 1; repeated Argument input_arg = 2; repeated Argument output_arg = 3;
}
message Returned { string key = 1; string value = 2; }
message FunctionHeader { OpDef signature = 1; }
message FunctionDef {
  OpDef signature = 1; repeated Node node_def = 3; repeated Returned ret = 4;
}

message MetaInfo { repeated string tags = 4; string tensorflow_version = 5; }
message TensorInfo { string name = 1; int32 dtype = 2; Shape tensor_shape = 3; }
message NamedTensor { string key = 1; TensorInfo value = 2; }
message Signature { repeated NamedTensor inputs = 1; repeated NamedTensor outputs = 2; }
message NamedSignature { string key = 1; Signature value = 2; }
message BytesList { repeated bytes value = 1; }
message Any { bytes value = 2; }
message AnyList { repeated Any value = 1; }
message Collection { BytesList bytes_list = 2; AnyList any_list = 5; }
message NamedCollection { string key = 1; Collection value = 2; }
message SliceInfo {
  string full_name = 1; repeated int64 full_shape = 2; repeated int64 var_offset = 3;
  repeated int64 var_shape = 4;
}
message VariableDef { string variable_name = 1; SliceInfo save_slice_info_def = 4; }
message MetaGraph {
  MetaInfo meta_info_def = 1; bytes graph_def = 2;
  repeated bytes collection_def = 4; repeated NamedSignature signature_def = 5;
  repeated AssetFile asset_file_def = 6;
  SavedObjectGraph object_graph_def = 7;
}
message SavedModel {
  int64 saved_model_schema_version = 1; repeated MetaGraph meta_graphs = 2;
}

message KerasObject { int32 node_id = 2; string identifier = 4; string metadata = 5; }
message KerasMetadata { repeated KerasObject nodes = 1; }
"""


class CorruptError(Exception):
    """Corrupt data, which callers turn into a `LegacyModelError`."""


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
            if label == "optional ":  # with presence, which needs a `oneof`
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


def _message_classes() -> dict[str, Any]:
    pool, names = _pool(), [name for name, _ in MESSAGE.findall(MESSAGES)]
    found = (pool.FindMessageTypeByName(f"{PACKAGE}.{name}") for name in names)
    return dict(zip(names, map(message_factory.GetMessageClass, found), strict=True))


# protobuf refers weakly to the classes of inner messages: without messages, they would
# be garbage, which one thread may free while another one makes a message of them.
CLASSES = _message_classes()


def parse(name: str, data: bytes, most: int = limits.MESSAGES) -> Message:
    """Return the message `name` of `MESSAGES`, parsed from `data`.

    Data that is not small may hold at most `most` messages.

    Example:
        >>> parse("Versions", bytes([8, 26])).producer
        26
    """
    parsed = CLASSES[name]()
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
    """Raise if parsing would take too much memory.

    A message of two bytes takes a hundred bytes of memory when it is parsed.
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
    """Return `{field number: kind}` of the fields that hold messages."""
    fields = kind.fields
    return {item.number: item.message_type for item in fields if item.message_type}


def _fields(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield `(number, wire type, start, end)` of the fields in `data[start:end]`."""
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
