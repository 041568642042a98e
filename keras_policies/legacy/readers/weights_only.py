"""Reads files that hold weights without a model: checkpoints, and HDF5.

A checkpoint of `tf.train.Checkpoint` or of `save_weights` has a graph of objects,
but neither their classes nor, for the layers of a Sequential or Functional model,
their names: there it has `layer_with_weights-0`, `layer_with_weights-1`, ….
"""

import contextlib
import pathlib

from keras_policies.legacy.base.errors import LegacyModelError, entering
from keras_policies.legacy.guards import guarded_hdf5
from keras_policies.legacy.readers import hdf5
from keras_policies.legacy.readers.checkpoint import object_graph
from keras_policies.legacy.readers.checkpoint.checkpoint import Checkpoint
from keras_policies.legacy.readers.saved_model import saved_model

# Edges of a root that lead to something else than a model.
NO_MODEL = frozenset(("optimizer", "save_counter", "step", "global_step"))


def _graph(prefix):
    """Return the `ObjectGraph` of the checkpoint at `prefix`."""
    checkpoint = Checkpoint(prefix)
    saved = checkpoint.object_graph()
    if saved is None or not saved.nodes:
        raise LegacyModelError(
            f"{prefix}: a checkpoint by names alone (of TensorFlow 1, or of an "
            "estimator): it does not tell which layer a tensor belongs to."
        )
    variables = {}
    for number, node in enumerate(saved.nodes):
        entry = object_graph.variable_entry(checkpoint, node)
        if entry is not None:
            variables[number] = entry, node.attributes[0].full_name
    children = object_graph.children_of(saved.nodes, prefix)
    return object_graph.ObjectGraph(children, variables, {})


def _model_node(graph, where):
    """Return the node of the model: the root, or the one that it tracks."""
    edges = graph.children[0]
    if "model" in edges:
        return edges["model"]
    if any(edge.startswith(object_graph.LAYER_WITH_WEIGHTS) for edge in edges):
        return 0
    models = [
        node
        for edge, node in edges.items()
        if edge not in NO_MODEL
        and any(
            inner.startswith(object_graph.LAYER_WITH_WEIGHTS)
            for inner in graph.children[node]
        )
    ]
    if len(models) > 1:
        raise LegacyModelError(
            f"{where}: the checkpoint tracks several models, {sorted(edges)}. Restore "
            "it in TensorFlow, and save the weights of the one you want."
        )
    return models[0] if models else 0


def _by_layer(graph, where):
    """Return `{layer: (LegacyWeight, …)}`, layers numbered where they have no name."""
    model = _model_node(graph, where)
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
def read(path):
    """Yield `{layer: (LegacyWeight, …)}`; the weights can be read in this context.

    Args:
        path: str or `pathlib.Path`: an HDF5 file, the prefix of a checkpoint, or a
            SavedModel folder.

    Raises:
        LegacyModelError: if there is no such file, or it is corrupt.
    """
    with entering(_read(path), path) as found:
        yield found


@contextlib.contextmanager
def _read(path):
    path = pathlib.Path(path)
    if path.is_dir():
        path = path / saved_model.VARIABLES
    if not path.is_file():
        path = path.with_name(path.name.removesuffix(".index"))
        yield _by_layer(_graph(path), path)
        return
    where = str(path)
    with guarded_hdf5.open_file(path, where) as file:
        group = guarded_hdf5.member(file, "model_weights", where)
        group = file if group is None else group
        if not guarded_hdf5.names(group, "layer_names"):
            raise LegacyModelError(
                f"{where}: an HDF5 file without weights of tf.keras (no layer_names)."
            )
        yield hdf5.layer_weights(group, where)
