"""Describes the variables of a Keras 3 layer, as a legacy weight can name them."""

import collections
from typing import NamedTuple

import keras

from keras_policies import keras_internals
from keras_policies.legacy.keras_archive import numbered


class Target(NamedTuple):
    """A variable of a Keras 3 layer, as a legacy weight can be told to be it."""

    variable: object
    paths: tuple  # attributes; and attributes with the position, as in `.keras`
    name: str


def is_graph(layer):
    """Return whether a layer is a model whose layers go by their names."""
    return isinstance(layer, keras.Sequential) or (
        isinstance(layer, keras.Model) and keras_internals.is_functional(layer)
    )


def _children(layer):
    """Yield `(attribute, name in a .keras file, layer or variable)` below a layer."""
    if is_graph(layer):
        for inner in layer.layers:
            yield inner.name, inner.name, inner
        return
    for attribute, value in keras_internals.own_attributes(layer):
        name = attribute.lstrip("_")
        if isinstance(value, list | tuple | dict):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            items = [(key, item) for key, item in items if _is_tracked(item)]
            stored = numbered(type(item).__name__ for _, item in items)
            for (key, item), own in zip(items, stored, strict=True):
                yield f"{name}/{key}", f"{name}/{own}", item
        elif _is_tracked(value):
            yield name, name, value


def _is_tracked(value):
    return isinstance(value, keras.Layer | keras.Variable)


def targets(layer):
    """Return `[Target, …]` of a layer, in the order of `layer.weights`."""
    weights = {id(variable) for variable in layer.weights}
    found, seen, queue = {}, {id(layer)}, collections.deque([(layer, "", "")])
    while queue:
        current, prefix, stored_prefix = queue.popleft()
        own = keras_internals.own_variables(current)
        positions = {id(variable): number for number, variable in enumerate(own)}
        for attribute, stored, child in _children(current):
            path, stored_path = f"{prefix}{attribute}", f"{stored_prefix}{stored}"
            if isinstance(child, keras.Variable):
                position = positions.get(id(child))
                paths = (path, f"{stored_prefix}vars/{position}")
                if id(child) in weights:
                    found.setdefault(id(child), Target(child, paths, child.path))
            elif id(child) not in seen:
                seen.add(id(child))
                queue.append((child, f"{path}/", f"{stored_path}/"))
        for variable in own:  # kept in lists that no attribute shows
            position = f"{stored_prefix}vars/{positions[id(variable)]}"
            if id(variable) in weights:
                target = Target(variable, (position,), variable.path)
                found.setdefault(id(variable), target)
    return [found.get(id(item), Target(item, (), item.path)) for item in layer.weights]


def sublayers(model, kinds):
    """Return `[(paths, layer), …]` of the layers of some classes, at any depth.

    Args:
        model: `keras.Model`.
        kinds: tuple of classes.

    Returns:
        The paths are made of attributes, and of those as in a `.keras` file.
    """
    found, seen, queue = [], {id(model)}, collections.deque([(model, "", "")])
    while queue:
        current, prefix, stored_prefix = queue.popleft()
        for attribute, stored, child in _children(current):
            if isinstance(child, keras.Variable) or id(child) in seen:
                continue
            seen.add(id(child))
            path, stored_path = f"{prefix}{attribute}", f"{stored_prefix}{stored}"
            if isinstance(child, kinds):
                found.append(((path, stored_path), child))
            else:
                queue.append((child, f"{path}/", f"{stored_path}/"))
    return found
