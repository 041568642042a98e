"""Describes the variables of a Keras 3 layer, as a legacy weight can name them."""

import collections
from typing import NamedTuple

import keras

from keras_policies import keras_internals
from keras_policies.legacy.base.names import numbered


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


def _walk(layer, leaves=()):
    """Yield `(path, stored path, layer)` of a layer and those below it, nearest first.

    Args:
        layer: `keras.Layer`.
        leaves: tuple of classes below which it does not go.
    """
    seen, queue = {id(layer)}, collections.deque([("", "", layer)])
    while queue:
        path, stored_path, current = queue.popleft()
        yield path, stored_path, current
        if path and isinstance(current, leaves):
            continue
        for name, stored, child in _children(current):
            if not isinstance(child, keras.Variable) and id(child) not in seen:
                seen.add(id(child))
                queue.append((f"{path}{name}/", f"{stored_path}{stored}/", child))


def _own_targets(layer, path, stored_path):
    """Yield the `Target`s of a layer's own variables; those of attributes first."""
    own = keras_internals.own_variables(layer)
    positions = {
        id(variable): f"{stored_path}vars/{n}" for n, variable in enumerate(own)
    }
    for name, _, child in _children(layer):
        if isinstance(child, keras.Variable):
            position = positions.get(id(child))
            paths = (f"{path}{name}", *([position] if position else []))
            yield Target(child, paths, child.path)
    for variable in own:  # kept in lists that no attribute shows
        yield Target(variable, (positions[id(variable)],), variable.path)


def targets(layer):
    """Return `[Target, …]` of a layer, in the order of `layer.weights`."""
    found = {}
    for path, stored_path, current in _walk(layer):
        for target in _own_targets(current, path, stored_path):
            found.setdefault(id(target.variable), target)
    return [found.get(id(item), Target(item, (), item.path)) for item in layer.weights]


def layers(model):
    """Yield `(layer, paths)` of a model and all layers in it, nearest first.

    Args:
        model: `keras.Model`.

    Returns:
        The paths are made of attributes, and of those as in a `.keras` file.
    """
    for path, stored_path, layer in _walk(model):
        yield layer, (path.removesuffix("/"), stored_path.removesuffix("/"))


def sublayers(model, kinds):
    """Return `[(paths, layer), …]` of the layers of some classes, at any depth.

    Args:
        model: `keras.Model`.
        kinds: tuple of classes.

    Returns:
        The paths are made of attributes, and of those as in a `.keras` file.
    """
    return [
        ((path.removesuffix("/"), stored_path.removesuffix("/")), layer)
        for path, stored_path, layer in _walk(model, leaves=kinds)
        if layer is not model and isinstance(layer, kinds)
    ]
