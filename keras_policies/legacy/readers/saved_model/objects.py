"""Opens a SavedModel folder: its objects, with what each file records about them.

`saved_model.pb` has the graph of tracked objects. Keras describes its objects in JSON,
in their nodes (2.0 to 2.4) or in `keras_metadata.pb` (from 2.5 on). The tensors are in
the checkpoint `variables/variables`, whose own object graph is matched with the first
by the names of edges. Source: tensorflow/python/saved_model/load.py.
"""

import collections
import dataclasses
import pathlib
from collections.abc import Iterable, Sequence

from keras_policies._common.types import Config
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.guards import limits, texts
from keras_policies.legacy.guards.paths import check_inside
from keras_policies.legacy.readers.checkpoint import object_graph, protos
from keras_policies.legacy.readers.checkpoint.checkpoint import Checkpoint
from keras_policies.legacy.readers.checkpoint.object_graph import Edges, ObjectGraph
from keras_policies.legacy.readers.checkpoint.protos import Message
from keras_policies.legacy.readers.saved_model.library import Library

MODEL_FILE = "saved_model.pb"
METADATA_FILE = "keras_metadata.pb"
VARIABLES = "variables/variables"
SCHEMA_VERSION = 1
KERAS_OBJECT = "_tf_keras_"
SERVE = "serve"  # tag of a graph
SIGNATURES, CALL = "signatures", "__call__"
# The JSON for a root that is not a Keras object but has a function.
SIGNATURE: Config = {"class_name": "Signature", "name": "signature"}


@dataclasses.dataclass(frozen=True)
class SavedObjects:
    """The objects of a SavedModel, by their numbers in `saved_model.pb`."""

    folder: pathlib.Path
    meta_graph: Message  # `MetaGraph`
    nodes: Sequence[Message]  # `SavedObject`
    graph: ObjectGraph  # includes the JSON that Keras wrote
    checkpoint: Checkpoint
    checkpoint_nodes: Sequence[Message]  # of the checkpoint's own graph
    in_checkpoint: dict[int, int]  # object -> its number in that graph
    library: Library
    is_signature: bool  # whether the root is not a Keras object, and only has functions


def open_folder(folder: pathlib.Path, meta_graph: Message) -> SavedObjects:
    """Return the `SavedObjects` of the SavedModel in a folder."""
    with located(folder / MODEL_FILE):
        nodes = meta_graph.object_graph_def.nodes
        children = object_graph.children_of(nodes)
    if functions_of(nodes, {CALL: 0}):  # a function was saved by itself
        children = [{**children[0], CALL: 0}, *children[1:]]
    metadata = _metadata(folder, nodes)
    is_signature = 0 not in metadata
    if is_signature:
        listed = children[0].get(SIGNATURES)
        has_signature = listed is not None and children[listed]
        if not has_signature and not functions_of(nodes, children[0]):
            raise LegacyModelError(
                "a SavedModel without Keras metadata and without functions: there is "
                "nothing to rebuild a model from, at most variables.",
                hints.load_weights_into_code(folder),
            )
        metadata = {0: SIGNATURE, **metadata}
    checkpoint = Checkpoint(folder / VARIABLES, folder)
    with located(folder / VARIABLES):
        checkpoint_nodes = checkpoint.nodes()
        if not checkpoint_nodes:
            raise LegacyModelError(
                "the checkpoint has no object graph, so its tensors cannot be "
                "identified. Was it written by another program?"
            )
        in_checkpoint = _matched(children, object_graph.children_of(checkpoint_nodes))
    stored = (
        (node, checkpoint.variable(checkpoint_nodes[there], nodes[node].variable.name))
        for node, there in in_checkpoint.items()
        if nodes[node].HasField("variable")
    )
    variables = {node: item for node, item in stored if item is not None}
    return SavedObjects(
        folder=folder,
        meta_graph=meta_graph,
        nodes=nodes,
        graph=ObjectGraph(children, variables, metadata),
        checkpoint=checkpoint,
        checkpoint_nodes=checkpoint_nodes,
        in_checkpoint=in_checkpoint,
        library=Library(folder / MODEL_FILE, meta_graph),
        is_signature=is_signature,
    )


def functions_of(nodes: Sequence[Message], edges: Edges) -> Edges:
    """Return the edges of an object that lead to traced functions."""
    return {
        name: node
        for name, node in edges.items()
        if nodes[node].function.concrete_functions or nodes[node].bare_concrete_function
    }


def _parsed(kind: str, path: pathlib.Path) -> Message:
    check_inside(path, path.parent)
    if path.stat().st_size > limits.MODEL_BYTES:
        reason = f"larger than {limits.MODEL_BYTES} bytes, the safety limit."
        raise LegacyModelError(reason, code="KP201")
    return protos.parse(kind, path.read_bytes())


def meta_graph_of(folder: pathlib.Path) -> Message:
    """Return the meta graph for inference of the SavedModel in a folder.

    TensorFlow 2 writes one. If none has the tag, the first one is taken.
    """
    parsed = _parsed("SavedModel", folder / MODEL_FILE)
    if parsed.saved_model_schema_version > SCHEMA_VERSION:
        raise LegacyModelError(
            "written in a newer format: schema version "
            f"{parsed.saved_model_schema_version}, this reader knows {SCHEMA_VERSION}."
        )
    if not parsed.meta_graphs:
        raise LegacyModelError("no model in it: truncated or corrupt.")
    graphs = parsed.meta_graphs
    return next((x for x in graphs if SERVE in x.meta_info_def.tags), graphs[0])


def _metadata(folder: pathlib.Path, nodes: Sequence[Message]) -> dict[int, Config]:
    """Return the JSON of Keras by object; an outdated `keras_metadata.pb` is ignored.

    TensorFlow up to 2.4 and writers other than Keras leave that of an earlier save.
    """
    path = folder / METADATA_FILE
    if nodes[0].user_object.metadata or not path.is_file():
        with located(folder / MODEL_FILE):
            return _decoded((at, node.user_object) for at, node in enumerate(nodes))
    with located(path):
        written = _parsed("KerasMetadata", path).nodes
        if any(
            0 <= item.node_id < len(nodes)
            and item.identifier != nodes[item.node_id].user_object.identifier
            for item in written
        ):
            return {}
        return _decoded((item.node_id, item) for item in written)


def _decoded(objects: Iterable[tuple[int, Message]]) -> dict[int, Config]:
    """Return `{object: dict}` of the messages that Keras wrote."""
    metadata = {
        number: item.metadata
        for number, item in objects
        if item.metadata and item.identifier.startswith(KERAS_OBJECT)
    }
    texts.check_size(metadata.values(), "the objects of Keras")
    return {at: texts.decode(text, f"object {at}") for at, text in metadata.items()}


def _matched(children: Sequence[Edges], others: Sequence[Edges]) -> dict[int, int]:
    """Match objects by walking both graphs along edges of the same name."""
    matched, queue = {0: 0}, collections.deque([0])
    while queue:
        node = queue.popleft()
        there = others[matched[node]]
        for edge, child in children[node].items():
            if child not in matched and edge in there:
                matched[child] = there[edge]
                queue.append(child)
    return matched
