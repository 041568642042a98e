"""A graph of tracked objects with named edges, as SavedModels and checkpoints have.

An edge is the name of an attribute; a layer of a Sequential or Functional model is
found under `layer-0`, `layer-1`, … as well. Source: tensorflow/core/protobuf/
{saved_object_graph, trackable_object_graph}.proto.
"""

import collections
import functools

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import LegacyWeight
from keras_policies.legacy.readers.checkpoint.checkpoint import read_tensor

LAYER = "layer-"
LAYER_WITH_WEIGHTS = "layer_with_weights-"
MAX_STEPS = 3_000_000
MAX_PATH = 10_000  # characters
# Edges of a layer that lead to no weights of its own.
BOOKKEEPING = frozenset(
    (
        "_default_save_signature",
        "_self_saveable_object_factories",
        "call_and_return_all_conditional_losses",
        "keras_api",
        "non_trainable_variables",
        "optimizer",
        "regularization_losses",
        "save_counter",
        "signatures",
        "trainable_variables",
        "variables",
        "__call__",
    )
)


def children_of(nodes, where):
    """Return `[{edge: node}]` for protobuf nodes; edges to nowhere are refused."""
    tables = []
    for number, node in enumerate(nodes):
        table = {child.local_name: child.node_id for child in node.children}
        if any(not 0 <= child < len(nodes) for child in table.values()):
            raise LegacyModelError(
                f"{where}: corrupt: object {number} refers to an object beyond the "
                f"{len(nodes)} there are."
            )
        tables.append(table)
    return tables


def variable_entry(checkpoint, node):
    """Return the `TensorEntry` of a variable's node in a checkpoint, or None."""
    for attribute in node.attributes:
        if attribute.name == "VARIABLE_VALUE":
            return checkpoint.entries.get(attribute.checkpoint_key)
    return None


def weight(entry, path, name):
    """Return the `LegacyWeight` of a tensor in a checkpoint, unread."""
    return LegacyWeight(
        path=path,
        name=name.removesuffix(":0"),
        shape=entry.shape,
        dtype=entry.dtype,
        read=functools.partial(read_tensor, entry),
    )


class ObjectGraph:
    """Objects by number; 0 is the root.

    Args:
        children: `[{edge: node}]`.
        variables: `{node: (TensorEntry, variable name)}`.
        metadata: `{node: dict}`, what Keras wrote about its objects.
    """

    def __init__(self, children, variables, metadata):
        self.steps = 0
        self.children = children
        self.variables = variables
        self.metadata = metadata

    def weight(self, node, path=""):
        """Return the `LegacyWeight` of a variable, or None if it is not stored."""
        if node not in self.variables:
            return None
        entry, name = self.variables[node]
        return weight(entry, path, name)

    def is_graph(self, node):
        """Return whether a node is a Sequential or Functional model."""
        config = self.metadata.get(node, {}).get("config")
        return isinstance(config, dict) and "layers" in config

    def layers(self, node):
        """Return `{layer name: node}` of a Sequential or Functional model."""
        return {
            self.metadata[child]["name"]: child
            for edge, child in self.children[node].items()
            if edge.startswith(LAYER)
            and isinstance(self.metadata.get(child, {}).get("name"), str)
        }

    def count(self, edges, path):
        """Raise if walking takes too long: a few objects can be linked very often.

        Args:
            edges: int, those that are about to be looked at.
            path: str, where.

        Raises:
            ValueError: whoever reads the file turns it into an error of ours.
        """
        self.steps += edges
        if self.steps > MAX_STEPS or len(path) > MAX_PATH:
            raise ValueError(
                f"the objects are linked more than {MAX_STEPS} times, or by "
                f"more than {MAX_PATH} characters: {path[:80]!r}."
            )

    def paths(self, node):
        """Return `{variable: path}` for the variables below a layer, nearest first.

        A path is made of attribute names; a layer of a nested Sequential or
        Functional model goes by its own name instead.
        """
        found, seen, queue = {}, {node}, collections.deque([(node, "")])
        while queue:
            current, prefix = queue.popleft()
            edges = self.children[current]
            self.count(len(edges), prefix)
            if self.is_graph(current):
                edges = {**self.layers(current), **edges}
            for edge, child in edges.items():
                is_alias = edge in BOOKKEEPING or edge.startswith(LAYER_WITH_WEIGHTS)
                if is_alias or child in seen:
                    continue
                seen.add(child)
                if child in self.variables:
                    found[child] = f"{prefix}{edge}"
                else:
                    queue.append((child, f"{prefix}{edge}/"))
        return found

    def weights(self, node):
        """Return `{variable: LegacyWeight}` of a layer, in the order of its weights."""
        paths = self.paths(node)
        listed = self.children[node].get("variables")
        order = () if listed is None else self.children[listed].values()
        return {
            child: self.weight(child, paths[child])
            for child in dict.fromkeys((*order, *paths))
            if child in paths
        }
