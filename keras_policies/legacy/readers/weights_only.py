"""Reads files that hold weights without a model: checkpoints, and HDF5.

A checkpoint of `tf.train.Checkpoint` or of `save_weights` has a graph of objects. It
records no classes, and no names for the layers of a Sequential or Functional model:
there they are `layer_with_weights-0`, `layer_with_weights-1`, ….
"""

import contextlib
import pathlib
import re
import zipfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keras_policies.legacy.base.errors import FilePath, LegacyModelError, corrupt
from keras_policies.legacy.base.model import LayerWeights, LegacyOptimizerState
from keras_policies.legacy.guards import guarded_hdf5, paths
from keras_policies.legacy.readers import hdf5, sources
from keras_policies.legacy.readers.checkpoint import object_graph
from keras_policies.legacy.readers.checkpoint.checkpoint import Checkpoint
from keras_policies.legacy.readers.checkpoint.object_graph import Edges, ObjectGraph
from keras_policies.legacy.readers.checkpoint.protos import Message
from keras_policies.legacy.readers.saved_model import objects, saved_model

NUMBERED = object_graph.LAYER_WITH_WEIGHTS
# Edges of a root that lead to something else than a model.
NO_MODEL = frozenset(("optimizer", "save_counter", "step", "global_step"))


class Weights(NamedTuple):
    """The weights of a model, by layer, and the state of its optimizer, if any."""

    by_layer: LayerWeights
    optimizer: LegacyOptimizerState = LegacyOptimizerState()


def _graph(checkpoint: Checkpoint, nodes: Sequence[Message]) -> ObjectGraph:
    if not nodes:
        raise LegacyModelError(
            "a checkpoint by names alone (of TensorFlow 1, or of an estimator): it "
            "does not record which layer a tensor belongs to."
        )
    pairs = ((number, checkpoint.variable(node)) for number, node in enumerate(nodes))
    variables = {number: item for number, item in pairs if item is not None}
    return ObjectGraph(object_graph.children_of(nodes), variables, {})


def _model_node(graph: ObjectGraph) -> int:
    """Return the node of the model: the root, or the one that it tracks."""
    edges = graph.children[0]
    if "model" in edges:
        return edges["model"]
    if _has_layers(edges):
        return 0
    tracked = [node for edge, node in edges.items() if edge not in NO_MODEL]
    models = [node for node in tracked if _has_layers(graph.children[node])]
    if len(models) > 1:
        raise LegacyModelError(
            f"the checkpoint tracks several models, {sorted(edges)}.",
            "Restore it in TensorFlow, and save the weights of the one you want.",
        )
    return models[0] if models else 0


def _has_layers(edges: Edges) -> bool:
    return any(edge.startswith(NUMBERED) for edge in edges)


def _of_checkpoint(prefix: pathlib.Path) -> Weights:
    """Return the weights by layer, layers numbered where they have no name."""
    checkpoint = Checkpoint(prefix)
    nodes = checkpoint.nodes()
    graph = _graph(checkpoint, nodes)
    model = _model_node(graph)
    layers = {
        int(edge.removeprefix(NUMBERED)): node
        for edge, node in graph.children[model].items()
        if re.fullmatch(rf"{NUMBERED}[0-9]+", edge)
    }
    named = {f"{NUMBERED}{number}": node for number, node in sorted(layers.items())}
    variables = {
        name: graph.weights(node) for name, node in (named or {"": model}).items()
    }
    flat = {node: item for layer in variables.values() for node, item in layer.items()}
    edges = {**graph.children[model], **graph.children[0]}
    slots = saved_model.slot_variables(checkpoint, nodes, flat)
    state = saved_model.optimizer_state(graph, edges.get("optimizer"), flat, slots)
    by_layer = {name: tuple(layer.values()) for name, layer in variables.items()}
    return Weights(by_layer, state)


@contextlib.contextmanager
def read(path: FilePath) -> Iterator[Weights]:
    """Yield `Weights`, which can be read in this context.

    The path is an HDF5 file, the prefix of a checkpoint, or a SavedModel folder; or one
    that `sources.local` takes.
    """
    with contextlib.ExitStack() as stack:
        here = stack.enter_context(sources.local(path, weights=True))
        stack.enter_context(paths.unchanged(here))
        with corrupt(here):
            weights = stack.enter_context(_read(here))
        yield weights


@contextlib.contextmanager
def _read(path: pathlib.Path) -> Iterator[Weights]:
    if path.is_dir():
        sources.check_folder(path)
        path = path / objects.VARIABLES
    elif path.exists():
        paths.check_regular(path)
    if sources.is_prefix(path) or not path.is_file():
        yield _of_checkpoint(path.with_name(path.name.removesuffix(".index")))
        return
    if zipfile.is_zipfile(path):
        hint = "Open it with keras_policies.load_model, and take that model's weights."
        raise LegacyModelError("a .keras file, not one of weights alone.", hint)
    with guarded_hdf5.open_file(path) as file:
        group = guarded_hdf5.member(file, "model_weights") or file
        if not guarded_hdf5.names(group, "layer_names"):
            reason = "an HDF5 file without weights of tf.keras (no layer_names)."
            raise LegacyModelError(reason)
        by_layer = hdf5.weights_by_layer(group)
        hdf5.check_total(path, by_layer, ())
        yield Weights(by_layer)
