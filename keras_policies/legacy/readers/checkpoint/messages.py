"""TensorFlow's protocol buffers, reduced to the fields that we read.

Sources: tensorflow/core/protobuf/{saved_model, meta_graph, saved_object_graph,
trackable_object_graph, tensor_bundle, struct}.proto, tensorflow/core/framework/
{tensor_shape, versions, types, graph, node_def, attr_value, tensor, function, op_def,
variable}.proto, keras/protobuf/saved_metadata.proto.
"""

# In the language of .proto files. Parts that are large and seldom needed are `bytes`:
# they are parsed only when they are.
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
message Slice { }

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
message SavedObject {
  repeated Child children = 1; UserObject user_object = 4; SavedAsset asset = 5;
  SavedFunction function = 6; SavedVariable variable = 7;
  bytes bare_concrete_function = 8; SavedConstant constant = 9;
}
message SavedObjectGraph {
  repeated SavedObject nodes = 1; repeated bytes concrete_functions = 2;
}
message ConcreteFunction {
  repeated int32 bound_inputs = 2; bytes canonicalized_input_signature = 3;
  bytes output_signature = 4;
}
message NamedConcreteFunction { string key = 1; ConcreteFunction value = 2; }
message AssetFile { string filename = 2; }

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
message Library { repeated bytes function = 1; }
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

message MetaInfo { string tensorflow_version = 5; }
message TensorInfo { int32 dtype = 2; Shape tensor_shape = 3; }
message Input { string key = 1; TensorInfo value = 2; }
message Signature { repeated Input inputs = 1; }
message NamedSignature { string key = 1; Signature value = 2; }
message MetaGraph {
  MetaInfo meta_info_def = 1; bytes graph_def = 2;
  repeated NamedSignature signature_def = 5; repeated AssetFile asset_file_def = 6;
  SavedObjectGraph object_graph_def = 7;
}
message SavedModel {
  int64 saved_model_schema_version = 1; repeated MetaGraph meta_graphs = 2;
}

message KerasObject { int32 node_id = 2; string identifier = 4; string metadata = 5; }
message KerasMetadata { repeated KerasObject nodes = 1; }
"""
