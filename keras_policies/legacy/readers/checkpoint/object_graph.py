"""The graph of tracked objects in a SavedModel or a checkpoint, with named edges.

An edge is the name of an attribute; those to the layers of a Sequential or Functional
model are also named `layer-0`, `layer-1`, …. Source: tensorflow/core/protobuf/
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
# Edges that do not lead to a layer's own weights.
BOOKKEEPING = {
    *("_default_save_signature", "_self_saveable_object_factories", "__call__"),
    *("keras_api", "optimizer", "call_and_return_all_conditional_losses"),
    *("non_trainable_variables", "regularization_losses", "save_counter", "signatures"),
    *("trainable_variables", "variables"),
}


def children_of(nodes: Sequence[Message]) -> list[Edges]:
    """Return the edges of each message; refuse edges that lead nowhere."""
    graph = [{child.local_name: child.node_id for child in n.children} for n in nodes]
    for number, edges in enumerate(graph):
        if any(not 0 <= child < len(nodes) for child in edges.values()):
            reason = f"object {number} refers to an object that does not exist."
            raise LegacyModelError(f"corrupt: {reason}")
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
        """Return `{name: object}`: the layers of a model, else the attributes."""
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
        """Return the weights that are attributes of an object."""
        return {
            child: dataclasses.replace(self.variables[child], path=edge, number=child)
            for edge, child in self.attributes(node).items()
            if child in self.variables
        }

    def _named_first(self, node: int) -> Edges:
        """Return the attributes; layers of a model come first, by name or by number."""
        named = self.layers(node) if self.is_graph(node) else {}
        edges = self.children[node].items()
        numbered = {e: at for e, at in edges if e.startswith(LAYER_WITH_WEIGHTS)}
        return {**(named or numbered), **self.attributes(node)}

    def walk(
        self, start: int, edges: Callable[[int], Edges], leaves: Container[int] = ()
    ) -> Iterator[tuple[str, int]]:
        """Yield `(path, object)` for all objects below one, nearest first.

        Leaves, whose edges are not followed, are yielded under each of their paths, all
        other objects once. All walks share a limit: a few objects can have many links.
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

        Paths consist of attributes, and of names for the layers of nested Sequential
        and Functional models. If no attribute leads to a weight, its path is its name.
        """
        listed = self.children[node].get("variables")
        order = [] if listed is None else self.children[listed].values()
        self._steps.spend(len(order))
        paths: dict[int, str] = {}
        for path, child in self.walk(node, self._named_first, self.variables):
            if child in self.variables:  # the paths of all objects may take a gigabyte
                paths.setdefault(child, path)
        weights = {}
        for child in dict.fromkeys((*order, *paths)):
            if (weight := self.variables.get(child)) is not None:
                path = paths.get(child, weight.name)
                weights[child] = dataclasses.replace(weight, path=path, number=child)
        return weights
