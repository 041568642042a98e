"""Reads a SavedModel folder that tf.keras 2.0 to 2.15 wrote.

`saved_model.pb` holds the graph of tracked objects; each Keras object has a JSON
beside it, in the node itself (2.0 to 2.4) or in `keras_metadata.pb` (2.5 and on).
The tensors lie in the checkpoint `variables/variables`, which has an object graph
of its own: the two are walked together, by the names of their edges. Sources:
tensorflow/python/saved_model/load.py, keras/saving/legacy/saved_model/load.py.
"""

import collections
import contextlib
import pathlib

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import LegacyModel
from keras_policies.legacy.guards import json_text
from keras_policies.legacy.guards.paths import check_inside
from keras_policies.legacy.readers import vocabularies
from keras_policies.legacy.readers.checkpoint import object_graph, protos
from keras_policies.legacy.readers.checkpoint.checkpoint import (
    DTYPES,
    STRING,
    Checkpoint,
)
from keras_policies.legacy.readers.saved_model import recorded_policies, saved_optimizer
from keras_policies.legacy.readers.saved_model.tables import Tables

MODEL_FILE = "saved_model.pb"
METADATA_FILE = "keras_metadata.pb"
VARIABLES = "variables/variables"
SCHEMA_VERSION = 1
MAX_MODEL_BYTES = 2 * 1024**3  # what a protocol buffer can be
KERAS_OBJECT = "_tf_keras_"
# The releases that wrote the dtypes of variables, but no policies.
WITHOUT_POLICIES = "1.", "2.0."


def _read(path):
    check_inside(path, path.parent)
    if path.stat().st_size > MAX_MODEL_BYTES:
        raise LegacyModelError(
            f"{path}: larger than {MAX_MODEL_BYTES} bytes: no model."
        )
    return path.read_bytes()


def _meta_graph(folder):
    """Return the first meta graph of the SavedModel; Keras writes one."""
    path = folder / MODEL_FILE
    parsed = protos.parse("SavedModel", _read(path), path)
    if parsed.saved_model_schema_version > SCHEMA_VERSION:
        raise LegacyModelError(
            f"{path}: written in a newer format: schema version "
            f"{parsed.saved_model_schema_version}, this reader knows {SCHEMA_VERSION}."
        )
    if not parsed.meta_graphs:
        raise LegacyModelError(f"{path}: no model in it: truncated or corrupt.")
    return parsed.meta_graphs[0]


def _metadata(folder, nodes):
    """Return `{node: dict}`, what Keras wrote about its objects."""
    path = folder / METADATA_FILE
    if path.is_file():
        parsed = protos.parse("KerasMetadata", _read(path), path)
        texts = [
            (item.node_id, item.identifier, item.metadata) for item in parsed.nodes
        ]
    else:
        path = folder / MODEL_FILE
        texts = [
            (number, node.user_object.identifier, node.user_object.metadata)
            for number, node in enumerate(nodes)
        ]
    texts = {
        number: text
        for number, identifier, text in texts
        if text and identifier.startswith(KERAS_OBJECT)
    }
    json_text.check_size(texts.values(), path)
    return {
        number: json_text.decode(text, f"{path}: object {number}")
        for number, text in texts.items()
    }


def _no_metadata(folder):
    return LegacyModelError(
        f"{folder}: a SavedModel without Keras metadata, so there are no layers to "
        "restore: tf.saved_model.save wrote something that is no Keras model, or Keras "
        "3 exported one. What can be done: call its signatures with "
        "keras.layers.TFSMLayer where TensorFlow is installed; or build the model in "
        "code, and give it the weights with keras_policies.load_weights(model, "
        f"'{folder}')."
    )


def _beside(children, saved_children):
    """Return `{node: node in the checkpoint's graph}`, the two walked together."""
    matched, queue = {0: 0}, collections.deque([0])
    while queue:
        node = queue.popleft()
        there = saved_children[matched[node]]
        for edge, child in children[node].items():
            if child not in matched and edge in there:
                matched[child] = there[edge]
                queue.append(child)
    return matched


def _variables(nodes, checkpoint, saved, saved_node):
    """Return `{node: (TensorEntry, name)}` of the variables that are stored."""
    found = {}
    for number, node in enumerate(nodes):
        if node.HasField("variable") and number in saved_node:
            there = saved[saved_node[number]]
            entry = object_graph.variable_entry(checkpoint, there)
            if entry is not None:
                found[number] = entry, node.variable.name
    return found


def _inputs(meta_graph):
    """Return `{name: (shape, dtype)}` of the serving signature."""
    for named in meta_graph.signature_def:
        if named.key == "serving_default":
            return {
                item.key: (
                    tuple(
                        None if dim.size < 0 else dim.size
                        for dim in item.value.tensor_shape.dim
                    ),
                    "string"
                    if item.value.dtype == STRING
                    else DTYPES.get(item.value.dtype, DTYPES[1]).name,
                )
                for item in sorted(named.value.inputs, key=lambda item: item.key)
            }
    return {}


def _saved_nodes(checkpoint, folder):
    saved = checkpoint.object_graph()
    if saved is None or not saved.nodes:
        raise LegacyModelError(
            f"{folder / VARIABLES}: the checkpoint has no object graph, so its tensors "
            "cannot be told apart. Was it written by another program?"
        )
    return saved.nodes


@contextlib.contextmanager
def read(path):
    """Yield the `LegacyModel` in the SavedModel folder at `path`.

    Args:
        path: str or `pathlib.Path`.

    Raises:
        LegacyModelError: if it holds no Keras model, or is corrupt.
    """
    folder = pathlib.Path(path)
    meta_graph = _meta_graph(folder)
    nodes = meta_graph.object_graph_def.nodes
    metadata = _metadata(folder, nodes)
    if 0 not in metadata or not nodes:
        raise _no_metadata(folder)
    children = object_graph.children_of(nodes, folder / MODEL_FILE)
    checkpoint = Checkpoint(folder / VARIABLES, folder)
    saved = _saved_nodes(checkpoint, folder)
    saved_node = _beside(children, object_graph.children_of(saved, folder / VARIABLES))
    variables = _variables(nodes, checkpoint, saved, saved_node)
    graph = object_graph.ObjectGraph(children, variables, metadata)

    root = metadata[0]
    layers = graph.layers(0) if graph.is_graph(0) else {"": 0}
    by_layer = {name: graph.weights(node) for name, node in layers.items()}
    every = {node: item for found in by_layer.values() for node, item in found.items()}
    config = root.get("config")
    if isinstance(config, dict) and config.get("layer was saved without config"):
        config = None
    config = {"class_name": root.get("class_name"), "config": config}
    tables = Tables(folder, meta_graph, children, checkpoint, saved, saved_node)
    found, weights = vocabularies.take(
        config,
        {name: tuple(found.values()) for name, found in by_layer.items()},
        vocabularies.of_saved_model(graph, tables, str(path)),
    )
    version = meta_graph.meta_info_def.tensorflow_version
    yield LegacyModel(
        path=str(path),
        format="SavedModel",
        written_by=f"TensorFlow {version}",
        config=config,
        policy=root.get("dtype"),
        records_policies=not version.startswith(WITHOUT_POLICIES),
        weights=weights,
        inputs=_inputs(meta_graph),
        training_config=root.get("training_config"),
        optimizer=saved_optimizer.read(graph, checkpoint, saved, saved_node, every),
        vocabularies=found,
        inner_policies=recorded_policies.of_layers(graph, vocabularies.edges_below),
    )
