"""Reads files that hold weights without a model: checkpoints, and HDF5.

A checkpoint of `tf.train.Checkpoint` or of `save_weights` has a graph of objects. It
records no classes, and no names for the layers of a Sequential or Functional model:
there they are `layer_with_weights-0`, `layer_with_weights-1`, ….
"""

import contextlib
import pathlib
from collections.abc import Iterator

from keras_policies.legacy.base.errors import FilePath, LegacyModelError, entering
from keras_policies.legacy.base.model import LegacyWeight
from keras_policies.legacy.guards import guarded_hdf5
from keras_policies.legacy.readers import hdf5_weights
from keras_policies.legacy.readers.checkpoint import object_graph
from keras_policies.legacy.readers.checkpoint.checkpoint import Checkpoint
from keras_policies.legacy.readers.saved_model import objects

ByLayer = dict[str, tuple[LegacyWeight, ...]]
# Edges of a root that lead to something else than a model.
NO_MODEL = frozenset(("optimizer", "save_counter", "step", "global_step"))


def _graph(prefix: pathlib.Path) -> object_graph.ObjectGraph:
    """Return the `ObjectGraph` of the checkpoint at `prefix`."""
    checkpoint = Checkpoint(prefix)
    nodes = checkpoint.nodes()
    if not nodes:
        raise LegacyModelError(
            "a checkpoint by names alone (of TensorFlow 1, or of an estimator): it "
            "does not record which layer a tensor belongs to."
        )
    variables = {}
    for number, node in enumerate(nodes):
        entry = checkpoint.variable(node)
        if entry is not None:
            variables[number] = entry, node.attributes[0].full_name
    return object_graph.ObjectGraph(object_graph.children_of(nodes), variables, {})


def _model_node(graph: object_graph.ObjectGraph) -> int:
    """Return the node of the model: the root, or the one that it tracks."""
    edges = graph.children[0]
    if "model" in edges:
        return edges["model"]
    if _has_layers(edges):
        return 0
    models = [
        node
        for edge, node in edges.items()
        if edge not in NO_MODEL and _has_layers(graph.children[node])
    ]
    if len(models) > 1:
        raise LegacyModelError(
            f"the checkpoint tracks several models, {sorted(edges)}.",
            "Restore it in TensorFlow, and save the weights of the one you want.",
        )
    return models[0] if models else 0


def _has_layers(edges: object_graph.Edges) -> bool:
    return any(edge.startswith(object_graph.LAYER_WITH_WEIGHTS) for edge in edges)


def _by_layer(graph: object_graph.ObjectGraph) -> ByLayer:
    """Return the weights by layer, layers numbered where they have no name."""
    model = _model_node(graph)
    prefix = object_graph.LAYER_WITH_WEIGHTS
    layers = {
        int(edge.removeprefix(prefix)): node
        for edge, node in graph.children[model].items()
        if edge.startswith(prefix) and edge.removeprefix(prefix).isdecimal()
    }
    if not layers:
        return {"": tuple(graph.weights(model).values())}
    return {
        f"{prefix}{number}": tuple(graph.weights(layers[number]).values())
        for number in sorted(layers)
    }


@contextlib.contextmanager
def read(path: FilePath) -> Iterator[ByLayer]:
    """Yield `{layer: (LegacyWeight, …)}`; the weights can be read in this context.

    Args:
        path: str or `pathlib.Path`: an HDF5 file, the prefix of a checkpoint, or a
            SavedModel folder.

    Raises:
        LegacyModelError: if there is no such file, or it is corrupt.
    """
    with entering(_read(pathlib.Path(path)), path) as found:
        yield found


@contextlib.contextmanager
def _read(path: pathlib.Path) -> Iterator[ByLayer]:
    if path.is_dir():
        path = path / objects.VARIABLES
    if not path.is_file():
        yield _by_layer(_graph(path.with_name(path.name.removesuffix(".index"))))
        return
    with guarded_hdf5.open_file(path) as file:
        group = guarded_hdf5.member(file, "model_weights")
        group = file if group is None else group
        if not guarded_hdf5.names(group, "layer_names"):
            raise LegacyModelError(
                "an HDF5 file without weights of tf.keras (no layer_names)."
            )
        yield hdf5_weights.by_layer(group)
