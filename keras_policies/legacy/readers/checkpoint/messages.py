"""TensorFlow's protocol buffers, reduced to the fields that we read.

Sources: tensorflow/core/protobuf/{saved_model, meta_graph, saved_object_graph,
trackable_object_graph, tensor_bundle}.proto, tensorflow/core/framework/
{tensor_shape, versions, types, graph, node_def, attr_value, tensor}.proto,
keras/protobuf/saved_metadata.proto.
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
message SavedVariable { string name = 6; }
message SavedAsset { int32 asset_file_def_index = 1; }
message SavedFunction { repeated string concrete_functions = 1; }
message SavedConstant { string operation = 1; }
message SavedObject {
  repeated Child children = 1; UserObject user_object = 4; SavedAsset asset = 5;
  SavedFunction function = 6; SavedVariable variable = 7; SavedConstant constant = 9;
}
message SavedObjectGraph {
  repeated SavedObject nodes = 1; repeated bytes concrete_functions = 2;
}
message ConcreteFunction { repeated int32 bound_inputs = 2; }
message NamedConcreteFunction { string key = 1; ConcreteFunction value = 2; }
message AssetFile { string filename = 2; }

message Tensor {
  int32 dtype = 1; Shape tensor_shape = 2; bytes tensor_content = 4;
  repeated int32 int_val = 7; repeated bytes string_val = 8;
  repeated int64 int64_val = 10;
}
message AttrValue { Tensor tensor = 8; }
message Attr { string key = 1; AttrValue value = 2; }
message Node { string name = 1; string op = 2; repeated Attr attr = 5; }
message Graph { repeated Node node = 1; }

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
