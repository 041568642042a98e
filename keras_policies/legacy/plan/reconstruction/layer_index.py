"""Finds traced layers by their names, their paths and their variables."""

import collections
import re
from collections.abc import Iterable, Iterator, Mapping

from keras_policies.legacy.base import configs
from keras_policies.legacy.base.model import Config, Vocabulary
from keras_policies.legacy.base.traced_functions import TracedFunctions, TracedLayer
from keras_policies.legacy.guards import limits


def by_name(traced: TracedFunctions, number: int) -> dict[str, int]:
    """Return the layers of a Sequential or Functional model."""
    children = traced.layers[number].children.values()
    return {traced.layers[n].name: n for n in children if n in traced.layers}


def pop_layer(
    traced: TracedFunctions, children: dict[str, int], layer: Config
) -> int | None:
    """Pop the number of a layer; one without a config is found by its class."""
    name, class_name = configs.name_of(layer), layer.get("class_name")
    if name not in children:
        classes = ((n, traced.layers[i].class_name) for n, i in children.items())
        name = next((n for n, its_class in classes if its_class == class_name), "")
    return children.pop(name, None)


def variables(
    traced: TracedFunctions, number: int | None
) -> Iterator[tuple[str, int, None]]:
    """Yield the variables of a layer, with the attributes that lead to them."""
    if number is None:
        return
    seen, waiting = {number}, [(number, "")]
    paths: dict[int, str] = {}
    for at, prefix in waiting:  # which grows
        layer = traced.layers[at]
        is_graph = configs.is_graph({"config": layer.config})
        children = by_name(traced, at) if is_graph else layer.children
        for name, child in children.items():
            if child in traced.variables:
                paths.setdefault(child, f"{prefix}{name}")
            elif child in traced.layers and child not in seen:
                seen.add(child)
                waiting.append((child, f"{prefix}{name}/"))
    for variable in traced.layers[number].variables:
        if variable in traced.variables:
            name = traced.variables[variable].name
            yield paths.get(variable, name), variable, None


def vocabularies(
    traced: TracedFunctions, by_path: Mapping[str, Vocabulary]
) -> dict[int, Vocabulary]:
    """Return the vocabularies of lookup layers by the layers' numbers."""
    return {_number(traced, path): vocabulary for path, vocabulary in by_path.items()}


def _number(traced: TracedFunctions, path: str) -> int:
    """Return the number of the layer at a path of names and attributes, or -1."""
    number, rest = 0, path
    while rest and number in traced.layers:
        children = by_name(traced, number) | dict(traced.layers[number].children)
        edges = [
            edge for edge in children if edge and f"{rest}/".startswith(f"{edge}/")
        ]
        edge = max(edges, key=len, default=rest)
        number, rest = children.get(edge, -1), rest[len(edge) :].lstrip("/")
    return number


def reads_in_training(layer: TracedLayer) -> frozenset[int]:
    """Return the variables that a layer reads in training.

    BatchNormalization takes the statistics of the batch instead of the moving ones.
    """
    is_normalization = layer.class_name == "BatchNormalization"
    return frozenset(layer.trainable if is_normalization else layer.variables)


class Layers:
    """The traced layers, found by their variables and their names."""

    def __init__(self, traced: TracedFunctions) -> None:
        self.traced = traced
        self._names = {layer.name for layer in traced.layers.values()}
        self._numbers = collections.defaultdict[tuple[frozenset[int], str], list[int]](
            list
        )
        for number, layer in traced.layers.items():
            for read in {frozenset(layer.variables), reads_in_training(layer)}:
                numbers = self._numbers[read, layer.name]
                if len(numbers) < limits.NAMESAKES:
                    numbers.append(number)

    def has_name(self, last: str) -> bool:
        """Return whether a layer is called as the last part of a scope says."""
        return not self._names.isdisjoint(_names(last))

    def named(self, scope: str, variables: frozenset[int]) -> list[int]:
        """Return the layers that a scope of nodes with these variables can be.

        A layer that is called again gets a number after its name.
        """
        names = _names(scope.rpartition("/")[2])
        matches = (self._numbers.get((variables, name), ()) for name in names)
        return [number for numbers in matches for number in numbers][: limits.NAMESAKES]


def _names(last: str) -> Iterable[str]:
    """Return the names of the layers that the last part of a scope can mean."""
    return dict.fromkeys((last, re.sub(r"_\d+$", "", last)))
