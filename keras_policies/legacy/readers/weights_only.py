"""Reads files that hold weights without a model: checkpoints and HDF5.

HDF5 files list the weights of each layer by name, or, as `.weights.h5` of Keras 2.12
to 2.15, have the paths of attributes that `.keras` archives have.

The checkpoints of `tf.train.Checkpoint` and `save_weights` have a graph of objects. It
records no classes, and numbers the layers of a Sequential or Functional model:
`layer_with_weights-0`, `layer_with_weights-1`, ….
"""

import contextlib
import pathlib
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from keras_policies.legacy.base.errors import FilePath, LegacyModelError, corrupt
from keras_policies.legacy.base.model import LegacyOptimizerState
from keras_policies.legacy.base.weights import LayerWeights, LegacyWeight
from keras_policies.legacy.guards import guarded_hdf5, paths
from keras_policies.legacy.readers import hdf5, keras_archive, sources
from keras_policies.legacy.readers.checkpoint import object_graph
from keras_policies.legacy.readers.checkpoint.checkpoint import Checkpoint
from keras_policies.legacy.readers.checkpoint.object_graph import Edges, ObjectGraph
from keras_policies.legacy.readers.checkpoint.protos import Message
from keras_policies.legacy.readers.saved_model import objects, saved_model

NUMBERED = object_graph.LAYER_WITH_WEIGHTS
# Edges of a root that do not lead to a model.
NO_MODEL = frozenset(("optimizer", "save_counter", "step", "global_step"))


class Weights(NamedTuple):
    """The weights of a model, by layer, and the state of its optimizer, if any."""

    by_layer: LayerWeights
    optimizer: LegacyOptimizerState = LegacyOptimizerState()


class Candidates(NamedTuple):
    """The objects of a file that may be the model, by name; `""` is the root."""

    weights: Mapping[str, Weights]
    meant: str | None  # reported if none fits; None if there are several
    # The variables of the optimizer in a `.weights.h5` file, whose paths are those in a
    # `.keras` archive. None for other files.
    of_optimizer: tuple[LegacyWeight, ...] | None = None


def _graph(checkpoint: Checkpoint, nodes: Sequence[Message]) -> ObjectGraph:
    if not nodes:
        raise LegacyModelError(
            "a name-based checkpoint (of TensorFlow 1, or of an estimator): it does "
            "not record which layer a tensor belongs to."
        )
    pairs = ((number, checkpoint.variable(node)) for number, node in enumerate(nodes))
    variables = {number: item for number, item in pairs if item is not None}
    return ObjectGraph(object_graph.children_of(nodes), variables, {})


def _roots(graph: ObjectGraph) -> Edges:
    return {
        edge: node
        for edge, node in graph.attributes(0).items()
        if edge not in NO_MODEL
        and not edge.startswith(object_graph.LAYER)
        and node
        and node not in graph.variables
        and graph.weights(node)
    }


def _at(graph: ObjectGraph, root: str) -> int:
    """Return the object at a path of attributes, or raise an error that names all."""
    node = 0
    for edge in root.split("/"):
        if edge not in graph.children[node]:
            raise LegacyModelError(
                f"there is no object {root!r} in the checkpoint; it tracks "
                f"{sorted(_roots(graph))}.",
                code="KP109",
            )
        node = graph.children[node][edge]
    return node


def _meant(graph: ObjectGraph, roots: Edges) -> str | None:
    """Return the object that is most likely the model, or None if there are several."""
    if "model" in roots:
        return "model"
    models = [
        root
        for root, node in {"": 0, **roots}.items()
        if any(edge.startswith(NUMBERED) for edge in graph.children[node])
    ]
    if "" in models or not models:
        return ""
    return models[0] if len(models) == 1 else None


def _of_checkpoint(prefix: pathlib.Path, root: str | None) -> Candidates:
    """Return the weights of the object at `root`, or of all that may be the model."""
    checkpoint = Checkpoint(prefix)
    nodes = checkpoint.nodes()
    graph = _graph(checkpoint, nodes)
    if root is None:
        roots = _roots(graph)
        candidates, meant = {"": 0, **roots}, _meant(graph, roots)
    else:
        candidates, meant = {root: _at(graph, root)}, root
    weights = {
        name: _of_object(checkpoint, nodes, graph, node)
        for name, node in candidates.items()
    }
    return Candidates(weights, meant)


def _of_object(
    checkpoint: Checkpoint, nodes: Sequence[Message], graph: ObjectGraph, model: int
) -> Weights:
    """Return the weights of an object, by the numbers of its layers if it has any."""
    named = _numbered(graph, model, NUMBERED) or _numbered(
        graph, model, object_graph.LAYER
    )
    nodes_of = named or {"": model}
    variables = {name: graph.weights(node) for name, node in nodes_of.items()}
    if named:  # without the counters beside a model
        own = graph.own_weights(model)
        variables[""] = {n: own[n] for n in own if own[n].path not in NO_MODEL}
    flat = {node: item for layer in variables.values() for node, item in layer.items()}
    edges = {**graph.children[model], **graph.children[0]}
    slots = saved_model.slot_variables(checkpoint, nodes, flat)
    state = saved_model.optimizer_state(graph, edges.get("optimizer"), flat, slots)
    by_layer = {name: tuple(layer.values()) for name, layer in variables.items()}
    return Weights(by_layer, state)


def _numbered(graph: ObjectGraph, model: int, prefix: str) -> Edges:
    """Return the layers of a model by their edges, in the order of the numbers.

    One that was built late, or by TensorFlow 1, numbers all its layers, `layer-0`, and
    has no `layer_with_weights-0`.
    """
    layers = {
        int(edge.removeprefix(prefix)): node
        for edge, node in graph.children[model].items()
        if re.fullmatch(rf"{prefix}[0-9]+", edge)
    }
    return {f"{prefix}{number}": node for number, node in sorted(layers.items())}


@contextlib.contextmanager
def read(
    path: FilePath, root: str | None = None, *, by_name: bool = False
) -> Iterator[Candidates]:
    """Yield `Candidates`, whose weights can be read in this context.

    The path is that of an HDF5 file, a checkpoint or a SavedModel, or one that
    `sources.local` takes. `root` names an object of a checkpoint. With `by_name`, a
    file without the names of layers is refused.
    """
    with contextlib.ExitStack() as stack:
        here = stack.enter_context(sources.local(path, weights=True))
        stack.enter_context(paths.unchanged(here))
        with corrupt(here):
            weights = stack.enter_context(_read(here, root, by_name))
        yield weights


def _no_names() -> LegacyModelError:
    return LegacyModelError(
        "it has no names of layers, so by_name=True does not work.",
        "Leave by_name out; skip_mismatch=True skips weights that do not fit.",
        code="KP109",
    )


@contextlib.contextmanager
def _read(path: pathlib.Path, root: str | None, by_name: bool) -> Iterator[Candidates]:
    paths.check_fetched(path)
    if path.is_dir():
        sources.check_folder(path)
        if by_name and root is None:
            with saved_model.read(path) as legacy:
                if set(legacy.weights) == {""}:
                    raise _no_names()
                yield Candidates({"": Weights(legacy.weights)}, "")
            return
        path = path / objects.VARIABLES
    elif path.exists():
        paths.check_regular(path)
    if sources.is_prefix(path) or not path.is_file():
        if by_name:
            raise _no_names()
        yield _of_checkpoint(sources.prefix_of(path), root)
        return
    is_archive = zipfile.is_zipfile(path)
    opened = keras_archive.weights_in if is_archive else guarded_hdf5.open_file
    with opened(path) as file:
        if root is not None:
            reason = f"an HDF5 file has no objects; received root={root!r}."
            raise LegacyModelError(reason, code="KP109")
        group = guarded_hdf5.member(file, "model_weights") or file
        if guarded_hdf5.names(group, "layer_names"):
            by_layer, stored = hdf5.weights_by_layer(group), None
        else:
            by_layer = {"": keras_archive.all_weights(file)}
            stored = keras_archive.stored_state(file)
        is_empty = stored is not None and not by_layer[""]
        # Keras writes the group `vars` for a model without weights, too.
        if is_empty and guarded_hdf5.member(file, "vars") is None:
            reason = "an HDF5 file without weights of tf.keras (no layer_names)."
            raise LegacyModelError(reason)
        if by_name and stored is not None:
            raise _no_names()
        hdf5.check_total(path, by_layer, stored or ())
        yield Candidates({"": Weights(by_layer)}, "", stored)
