"""Lists the layers and variables of a Keras 3 model by the names a legacy file uses."""

import collections
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import keras

from keras_policies import keras_internals
from keras_policies.legacy.base.model import LegacyWeight
from keras_policies.legacy.base.names import numbered

# Variables, each with the weight of the file that it gets.
Pairs: TypeAlias = list[tuple[keras.Variable, LegacyWeight]]


class Place(NamedTuple):
    """A layer and the path to it from its model.

    Args:
        layer: `keras.Layer`.
        path: str, the attributes that lead to it, `"blocks/0/first"`; `""` for the
            model itself.
        stored_path: str, the same path in a Keras-2 `.keras` file, which numbers the
            layers in a list by their class: `"blocks/block/first"`.
    """

    layer: keras.Layer
    path: str
    stored_path: str


class Target(NamedTuple):
    """A variable of a Keras 3 layer, and what a legacy file can call it.

    Args:
        variable: `keras.Variable`.
        paths: tuple of str, the attributes that lead to it from its layer, and its
            position as in a `.keras` file: `"cell/kernel"`, `"cell/vars/0"`.
        name: str, the path that Keras 3 gives the variable, `"lstm/lstm_cell/kernel"`.
    """

    variable: keras.Variable
    paths: tuple[str, ...]
    name: str


def layers(model: keras.Layer, leaves: tuple[type[Any], ...] = ()) -> Iterator[Place]:
    """Yield the `Place` of a layer or model and of each layer in it, nearest first.

    Args:
        model: `keras.Layer`.
        leaves: classes whose own parts are left out.
    """
    seen, waiting = {id(model)}, collections.deque([Place(model, "", "")])
    while waiting:
        place = waiting.popleft()
        yield place
        if isinstance(place.layer, leaves):
            continue
        for name, stored, child in _children(place.layer):
            if not isinstance(child, keras.Variable) and id(child) not in seen:
                seen.add(id(child))
                stored = _join(place.stored_path, stored)
                waiting.append(Place(child, _join(place.path, name), stored))


def targets(layer: keras.Layer) -> list[Target]:
    """Return the `Target`s of a layer, in the order of `layer.weights`."""
    found: dict[int, Target] = {}
    for place in layers(layer):
        for target in _own_targets(place):
            found.setdefault(id(target.variable), target)
    return [found.get(id(item), Target(item, (), item.path)) for item in layer.weights]


def _own_targets(place: Place) -> Iterator[Target]:
    """Yield the `Target`s of a layer's own variables; those of attributes first."""
    own = keras_internals.own_variables(place.layer)
    positions = {
        id(variable): (_join(place.stored_path, f"vars/{number}"),)
        for number, variable in enumerate(own)
    }
    for name, _, child in _children(place.layer):
        if isinstance(child, keras.Variable):
            paths = (_join(place.path, name), *positions.get(id(child), ()))
            yield Target(child, paths, child.path)
    for variable in own:  # some are in lists that no attribute shows
        yield Target(variable, positions[id(variable)], variable.path)


def _children(layer: keras.Layer) -> Iterator[tuple[str, str, Any]]:
    """Yield `(attribute, name in a .keras file, layer or variable)` below a layer."""
    if _lists_its_layers(layer):
        yield from ((inner.name, inner.name, inner) for inner in layer.layers)
        return
    for attribute, value in keras_internals.own_attributes(layer):
        name = attribute.lstrip("_")
        if _is_tracked(value):
            yield name, name, value
        elif isinstance(value, list | tuple | dict):
            for key, stored, item in _tracked_items(value):
                yield f"{name}/{key}", f"{name}/{stored}", item


def _tracked_items(
    container: list[Any] | tuple[Any, ...] | dict[Any, Any],
) -> Iterator[tuple[Any, str, Any]]:
    """Yield `(key, name in a .keras file, layer or variable)` of a container."""
    items: Iterable[tuple[Any, Any]] = (
        container.items() if isinstance(container, dict) else enumerate(container)
    )
    tracked = [(key, item) for key, item in items if _is_tracked(item)]
    stored = numbered(type(item).__name__ for _, item in tracked)
    for (key, item), name in zip(tracked, stored, strict=True):
        yield key, name, item


def _lists_its_layers(layer: keras.Layer) -> bool:
    """Return whether a layer is a model that knows its layers by their names."""
    return isinstance(layer, keras.Sequential) or (
        isinstance(layer, keras.Model) and keras_internals.is_functional(layer)
    )


def _is_tracked(value: object) -> bool:
    return isinstance(value, keras.Layer | keras.Variable)


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name
