"""A graph of tracked objects with named edges, as SavedModels and checkpoints have.

An edge is the name of an attribute; a layer of a Sequential or Functional model is
found under `layer-0`, `layer-1`, … as well. Source: tensorflow/core/protobuf/
{saved_object_graph, trackable_object_graph}.proto.
"""

import collections
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from keras_policies.legacy.base import configs
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import Config, LegacyWeight
from keras_policies.legacy.readers.checkpoint.protos import Message

Edges: TypeAlias = dict[str, int]  # name of the edge -> number of the object
LAYER = "layer-"
LAYER_WITH_WEIGHTS = "layer_with_weights-"
MAX_STEPS = 3_000_000
# Edges of a layer that lead to no weights of its own.
NO_WEIGHTS = """
_default_save_signature _self_saveable_object_factories __call__ keras_api optimizer
call_and_return_all_conditional_losses non_trainable_variables regularization_losses
save_counter signatures trainable_variables variables
"""
BOOKKEEPING = frozenset(NO_WEIGHTS.split())


def children_of(nodes: Sequence[Message]) -> list[Edges]:
    """Return the edges of each message; edges to no object are refused."""
    every = [{child.local_name: child.node_id for child in n.children} for n in nodes]
    for number, edges in enumerate(every):
        if any(not 0 <= child < len(nodes) for child in edges.values()):
            raise LegacyModelError(
                f"corrupt: object {number} refers to an object beyond the "
                f"{len(nodes)} there are."
            )
    return every


class ObjectGraph:
    """Objects by number; 0 is the root.

    Args:
        children: list, the `Edges` of each object.
        variables: `{object: LegacyWeight}`, those in the checkpoint.
        metadata: `{object: dict}`, what Keras wrote about its objects.
    """

    def __init__(
        self,
        children: Sequence[Edges],
        variables: Mapping[int, LegacyWeight],
        metadata: Mapping[int, Config],
    ) -> None:
        self.children = children
        self.variables = variables
        self.metadata = metadata
        self._steps = 0

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

        A leaf is yielded under each of its paths; any other object once.

        Args:
            start: int, the object to begin with.
            edges: function, returns the edges to follow from an object.
            is_leaf: function, returns whether to follow none from an object.

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
            if child in self.variables and child not in found:
                found[child] = dataclasses.replace(self.variables[child], path=path)
        listed = self.children[node].get("variables")
        order = () if listed is None else self.children[listed].values()
        every = dict.fromkeys((*order, *found))
        return {child: found[child] for child in every if child in found}
