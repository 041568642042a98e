"""Nodes: what a model calls at a place of its graph, a layer or something in its place.

A node is a layer, or an object that decides at its first call which layers and ops the
model gets there. Such objects are not part of the model.
"""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Tensor


class Open(Protocol):
    """A node that becomes a layer when it is known what it is called on."""

    name: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it in a graph, and return what the graph has from there on."""

    def layer(self, tensors: Sequence[Tensor] = ()) -> Any:
        """Return the layer that is called on some tensors; on () if unknown."""


Node: TypeAlias = keras.Layer | Open


def layer_of(node: Node, tensors: Sequence[Tensor] = ()) -> Any:
    """Return the layer of a node, which is called on some tensors, if known."""
    return node if isinstance(node, keras.Operation) else node.layer(tensors)


def one_or_all(items: list[Any]) -> Any:
    """Return the only item, or the list: what a layer or a model is called on."""
    return items[0] if len(items) == 1 else items


def steps(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return what a layer in a TimeDistributed is called on, with masks if masked."""
    found = []
    for x in tensors:
        step = keras.KerasTensor((x.shape[0], *x.shape[2:]), x.dtype)
        keras_internals.set_mask(step, keras_internals.mask_of(x))
        found.append(step)
    return found


def is_masked(tensors: Sequence[Tensor]) -> bool:
    """Return whether one of some tensors has a mask."""
    return any(keras_internals.mask_of(x) is not None for x in tensors)


def ends_mask(node: Node, tensor: Tensor) -> bool:
    """Return whether a node does not propagate the mask of a tensor.

    As a layer of a Sequential, the model that replaces it would.
    """
    ends = getattr(node, "ends_mask", None)
    return ends is not None and is_masked([tensor]) and ends(tensor)
