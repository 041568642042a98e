"""A graph of tracked objects with named edges, as SavedModels and checkpoints have.

An edge is the name of an attribute; a layer of a Sequential or Functional model is
found under `layer-0`, `layer-1`, … as well. Source: tensorflow/core/protobuf/
{saved_object_graph, trackable_object_graph}.proto.
"""

import collections
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from keras_policies.legacy.base import configs
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import Config, LegacyWeight
from keras_policies.legacy.readers.checkpoint.protos import Message
from keras_policies.legacy.readers.checkpoint.tensors import TensorEntry, read_tensor

Edges: TypeAlias = dict[str, int]  # name of the edge -> number of the object
LAYER = "layer-"
LAYER_WITH_WEIGHTS = "layer_with_weights-"
MAX_STEPS = 3_000_000
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


def children_of(nodes: Sequence[Message]) -> list[Edges]:
    """Return the edges of each object; edges to no object are refused.

    Args:
        nodes: messages with the field `children`.
    """
    tables = []
    for number, node in enumerate(nodes):
        table = {child.local_name: child.node_id for child in node.children}
        if any(not 0 <= child < len(nodes) for child in table.values()):
            raise LegacyModelError(
                f"corrupt: object {number} refers to an object beyond the "
                f"{len(nodes)} there are."
            )
        tables.append(table)
    return tables


def weight(entry: TensorEntry, path: str, name: str) -> LegacyWeight:
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
        children: list, the `Edges` of each object.
        variables: `{object: (TensorEntry, variable name)}`.
        metadata: `{object: dict}`, what Keras wrote about its objects.
    """

    def __init__(
        self,
        children: Sequence[Edges],
        variables: Mapping[int, tuple[TensorEntry, str]],
        metadata: Mapping[int, Config],
    ) -> None:
        self.children = children
        self.variables = variables
        self.metadata = metadata
        self._steps = 0

    def weight(self, node: int, path: str = "") -> LegacyWeight | None:
        """Return the `LegacyWeight` of a variable, or None if it is not stored."""
        if node not in self.variables:
            return None
        entry, name = self.variables[node]
        return weight(entry, path, name)

    def is_graph(self, node: int) -> bool:
        """Return whether an object is a Sequential or Functional model."""
        config = self.metadata.get(node, {}).get("config")
        return isinstance(config, dict) and "layers" in config

    def layers(self, node: int) -> Edges:
        """Return `{layer name: object}` of a Sequential or Functional model."""
        return {
            self.metadata[child]["name"]: child
            for edge, child in self.children[node].items()
            if edge.startswith(LAYER)
            and isinstance(self.metadata.get(child, {}).get("name"), str)
        }

    def inner_layers(self, node: int) -> Edges:
        """Return `{name: object}`: layers by name, of other objects the attributes."""
        if self.is_graph(node):
            return self.layers(node)
        numbered = LAYER, LAYER_WITH_WEIGHTS
        return {
            edge.lstrip("_"): child
            for edge, child in self.children[node].items()
            if edge not in BOOKKEEPING and not edge.startswith(numbered)
        }

    def _attributes(self, node: int) -> Edges:
        """Return the edges that lead to weights, layers by their names first."""
        named = self.layers(node) if self.is_graph(node) else {}
        return {
            edge: child
            for edge, child in {**named, **self.children[node]}.items()
            if edge not in BOOKKEEPING and not edge.startswith(LAYER_WITH_WEIGHTS)
        }

    def walk(
        self,
        start: int,
        edges: Callable[[int], Edges],
        is_leaf: Callable[[int], bool] = lambda node: False,
    ) -> Iterator[tuple[str, int]]:
        """Yield `(path, object)` for all objects below one, nearest first.

        A leaf is yielded under each of its paths and nothing below it; any other object
        once, under the shortest.

        Args:
            start: int, the object to begin with.
            edges: function, returns the edges to follow from an object.
            is_leaf: function, returns whether an object is a leaf.

        Raises:
            LegacyModelError: if the walks in this graph take too long, or a path is
                too long: a few objects can be linked very often.
        """
        seen, queue = {start}, collections.deque([(start, "")])
        while queue:
            node, prefix = queue.popleft()
            self._steps += len(self.children[node])
            if self._steps > MAX_STEPS:
                raise LegacyModelError(
                    f"corrupt: the objects are linked more than {MAX_STEPS} times."
                )
            for edge, child in edges(node).items():
                if child in seen:
                    continue
                path = configs.path(prefix, edge)
                yield path, child
                if not is_leaf(child):
                    seen.add(child)
                    queue.append((child, f"{path}/"))

    def weights(self, node: int) -> dict[int, LegacyWeight]:
        """Return `{variable: LegacyWeight}` of a layer, in the order of its weights.

        A path is made of attribute names; a layer of a nested Sequential or
        Functional model goes by its own name instead.
        """
        found: dict[int, LegacyWeight] = {}
        walk = self.walk(node, self._attributes, self.variables.__contains__)
        for path, child in walk:
            value = None if child in found else self.weight(child, path)
            if value is not None:
                found[child] = value
        listed = self.children[node].get("variables")
        order = () if listed is None else self.children[listed].values()
        every = dict.fromkeys((*order, *found))
        return {child: found[child] for child in every if child in found}
