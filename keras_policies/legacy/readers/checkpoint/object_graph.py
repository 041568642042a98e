"""A graph of tracked objects with named edges, as SavedModels and checkpoints have.

An edge is the name of an attribute; a layer of a Sequential or Functional model is
found under `layer-0`, `layer-1`, … as well. Source: tensorflow/core/protobuf/
{saved_object_graph, trackable_object_graph}.proto.
"""

import collections
import dataclasses
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import TypeAlias

from keras_policies._common.types import Config
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.weights import LegacyWeight
from keras_policies.legacy.guards import budget, limits
from keras_policies.legacy.guards.budget import Limit
from keras_policies.legacy.readers.checkpoint.protos import Message

Edges: TypeAlias = dict[str, int]  # name of the edge -> number of the object
Weights: TypeAlias = Mapping[int, LegacyWeight]  # by object
LAYER = "layer-"
LAYER_WITH_WEIGHTS = "layer_with_weights-"
# Edges of a layer that lead to no weights of its own.
NO_WEIGHTS = """
_default_save_signature _self_saveable_object_factories __call__ keras_api optimizer
call_and_return_all_conditional_losses non_trainable_variables regularization_losses
save_counter signatures trainable_variables variables
"""
BOOKKEEPING = frozenset(NO_WEIGHTS.split())


def children_of(nodes: Sequence[Message]) -> list[Edges]:
    """Return the edges of each message; edges to no object are refused."""
    graph = [{child.local_name: child.node_id for child in n.children} for n in nodes]
    for number, edges in enumerate(graph):
        if any(not 0 <= child < len(nodes) for child in edges.values()):
            raise LegacyModelError(
                f"corrupt: object {number} refers to an object beyond the "
                f"{len(nodes)} there are."
            )
    return graph


@dataclasses.dataclass
class ObjectGraph:
    """Objects by number; 0 is the root."""

    children: Sequence[Edges]
    variables: Weights  # those in the checkpoint
    metadata: Mapping[int, Config]  # what Keras wrote about its objects
    _steps: Limit = dataclasses.field(
        default_factory=lambda: Limit(limits.LINKS, "links between its objects"),
        init=False,
        repr=False,
    )

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
        return {
            edge.lstrip("_"): child
            for edge, child in self.attributes(node).items()
            if not edge.startswith(LAYER)
        }

    def attributes(self, node: int) -> Edges:
        """Return the edges that lead to layers and weights."""
        return {
            edge: child
            for edge, child in self.children[node].items()
            if edge not in BOOKKEEPING and not edge.startswith(LAYER_WITH_WEIGHTS)
        }

    def own_weights(self, node: int) -> Weights:
        """Return the weights that are attributes of an object itself."""
        return {
            child: dataclasses.replace(self.variables[child], path=edge, number=child)
            for edge, child in self.attributes(node).items()
            if child in self.variables
        }

    def _named_first(self, node: int) -> Edges:
        """Return the same, with the layers of a model under their names first.

        Without names, those with weights are under their numbers.
        """
        named = self.layers(node) if self.is_graph(node) else {}
        edges = self.children[node].items()
        numbered = {e: at for e, at in edges if e.startswith(LAYER_WITH_WEIGHTS)}
        return {**(named or numbered), **self.attributes(node)}

    def walk(
        self, start: int, edges: Callable[[int], Edges], leaves: Container[int] = ()
    ) -> Iterator[tuple[str, int]]:
        """Yield `(path, object)` for all objects below one, nearest first.

        A leaf, from which no edge is followed, is yielded under each of its paths; any
        other object once. All walks in this graph share a limit: a few objects can be
        linked very often.
        """
        seen, queue = {start}, collections.deque([(start, "")])
        while queue:
            node, prefix = queue.popleft()
            self._steps.spend(len(self.children[node]))
            for edge, child in edges(node).items():
                if child in seen:
                    continue
                path = budget.layer_path(prefix, edge)
                yield path, child
                if child not in leaves:
                    seen.add(child)
                    queue.append((child, f"{path}/"))

    def weights(self, node: int) -> dict[int, LegacyWeight]:
        """Return `{variable: LegacyWeight}` of a layer, in the order of its weights.

        A path is made of attribute names; a layer of a nested Sequential or
        Functional model goes by its own name instead. A weight that the layer lists
        but that no attribute leads to is under its name.
        """
        weights: dict[int, LegacyWeight] = {}
        for path, child in self.walk(node, self._named_first, self.variables):
            if child in self.variables and child not in weights:
                weights[child] = dataclasses.replace(
                    self.variables[child], path=path, number=child
                )
        listed = self.children[node].get("variables")
        order = [] if listed is None else self.children[listed].values()
        self._steps.spend(len(order))
        for child in order:
            if child in self.variables and child not in weights:
                weight = self.variables[child]
                weights[child] = dataclasses.replace(
                    weight, path=weight.name, number=child
                )
        in_order = dict.fromkeys((*order, *weights))
        return {child: weights[child] for child in in_order if child in weights}
