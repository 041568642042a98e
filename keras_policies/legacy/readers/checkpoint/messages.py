"""The messages of TensorFlow's protocol buffers, reduced to the fields that we read.

Sources: tensorflow/core/protobuf/{saved_model, meta_graph, saved_object_graph,
trackable_object_graph, tensor_bundle}.proto, tensorflow/core/framework/
{tensor_shape, versions, types, graph, node_def, attr_value, tensor}.proto,
keras/protobuf/saved_metadata.proto.
"""

# Message -> {field: (number, type)}. A list is a repeated field; a type that is not
# a scalar names another message.
MESSAGES: dict[str, dict[str, tuple[int, str | list[str]]]] = {
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
    # Functions and graphs are large and seldom needed, so they are parsed only then.
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
