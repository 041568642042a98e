"""The recorded layers, by the names that lead to them and by what they hold."""

import collections
import re
from collections.abc import Iterator

from keras_policies.legacy.base import configs
from keras_policies.legacy.base.model import Config
from keras_policies.legacy.base.recorded import Recorded


def by_name(recorded: Recorded, number: int) -> dict[str, int]:
    """Return the layers of a Sequential or Functional model."""
    children = recorded.layers[number].children.values()
    return {recorded.layers[n].name: n for n in children if n in recorded.layers}


def taken(recorded: Recorded, children: dict[str, int], layer: Config) -> int | None:
    """Take a layer out of those left; one without config is known by its class."""
    name, class_name = configs.name_of(layer), layer.get("class_name")
    if name not in children:
        classes = ((n, recorded.layers[i].class_name) for n, i in children.items())
        name = next((n for n, own in classes if own == class_name), "")
    return children.pop(name, None)


def variables(
    recorded: Recorded, number: int | None
) -> Iterator[tuple[tuple[str], int, None]]:
    """Yield the variables of a layer, with the attributes that lead to them."""
    if number is None:
        return
    seen, waiting = {number}, [(number, "")]
    found: dict[int, str] = {}
    for at, prefix in waiting:  # which grows
        layer = recorded.layers[at]
        is_graph = configs.is_graph({"config": layer.config})
        children = by_name(recorded, at) if is_graph else layer.children
        for name, child in children.items():
            if child in recorded.variables:
                found.setdefault(child, f"{prefix}{name}")
            elif child in recorded.layers and child not in seen:
                seen.add(child)
                waiting.append((child, f"{prefix}{name}/"))
    for variable in recorded.layers[number].variables:
        if variable in recorded.variables:
            name = recorded.variables[variable].name
            yield (found.get(variable, name),), variable, None


class Layers:
    """The recorded layers, found by what they hold and by their names."""

    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded
        # By its variables, or by its name if it has none.
        self._numbers = collections.defaultdict[frozenset[int] | str, list[int]](list)
        for number, layer in recorded.layers.items():
            key = frozenset(layer.variables) or layer.name
            self._numbers[key].append(number)

    def named(self, scope: str, variables: frozenset[int]) -> list[int]:
        """Return the layers that a scope of nodes with these variables can be.

        A layer that is called again gets a number after its name.
        """
        last = scope.rpartition("/")[2]
        names = {last, re.sub(r"_\d+$", "", last)}
        keys = [variables] if variables else names
        found = [number for key in keys for number in self._numbers.get(key, ())]
        return sorted(
            (n for n in found if self.recorded.layers[n].name in names),
            key=lambda n: self.recorded.layers[n].name != last,
        )
