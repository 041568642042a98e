"""The layers and variables of a model by their names in legacy files, and values."""

import collections
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import keras
import numpy as np

from keras_policies import keras_internals
from keras_policies._common.types import Tensor
from keras_policies.backends.running import backend
from keras_policies.legacy.assembly.keras_differences import rnn_states
from keras_policies.legacy.base.configs import numbered
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.base.weights import LayerWeights, LegacyWeight

# Variables, each with the weight in the file that becomes its value.
Pairs: TypeAlias = list[tuple[keras.Variable, LegacyWeight]]
TRACKED = keras.Layer, keras.Variable  # what Keras looks for in attributes
NUMBERED = "layer_with_weights-"
# Class and attribute in Keras 3 -> attributes in tf.keras.
OLD_NAMES = {
    ("DepthwiseConv1D", "kernel"): "depthwise_kernel",
    ("DepthwiseConv2D", "kernel"): "depthwise_kernel",
    ("Normalization", "adapt_mean"): "mean",
    ("Normalization", "adapt_variance"): "variance",
}
# Prefix of the names of dtypes -> the kind of their numbers.
KINDS = {"float": "float", "bfloat": "float", "int": "int", "uint": "int"}


class Place(NamedTuple):
    """A layer of a model, and the paths that lead to it; `""` is the model itself.

    A path is one of attributes ("towers/0/dense"), of a `.keras` file of Keras 2
    ("towers/sequential/dense"), or of a checkpoint ("towers/0/layer_with_weights-0").
    Three of each are in `paths`, in this order: whole; without the model that `forms`
    has made around a layer; also without TimeDistributed, which `extra_axes` may have
    put around a layer.
    """

    layer: keras.Layer
    paths: tuple[str, ...] = ("",) * 9

    @property
    def path(self) -> str:
        return self.paths[0]

    @property
    def stored_path(self) -> str:
        return self.paths[1]


class Target(NamedTuple):
    """A variable of a Keras 3 layer, and its names in legacy files."""

    variable: keras.Variable
    paths: tuple[str, ...]  # from its layer, "cell/kernel" and "cell/vars/0"
    name: str  # in Keras 3, "lstm/lstm_cell/kernel"


def layers(
    model: keras.Layer, leaves: tuple[type[keras.Layer], ...] = ()
) -> Iterator[Place]:
    """Yield a layer and all layers in it, except inside `leaves`, nearest first."""
    seen, waiting = {id(model)}, collections.deque([Place(model)])
    while waiting:
        place = waiting.popleft()
        yield place
        if isinstance(place.layer, leaves):
            continue
        is_wrapper = isinstance(place.layer, keras.layers.TimeDistributed)
        for names, child in _children(place.layer):
            if not isinstance(child, keras.Variable) and id(child) not in seen:
                seen.add(id(child))
                is_form = _is_form(place.layer, child)
                left_out = [False] * 3 + [is_form] * 3 + [is_form or is_wrapper] * 3
                ways = zip(place.paths, names * 3, left_out, strict=True)
                paths = (way if out else _join(way, part) for way, part, out in ways)
                waiting.append(Place(child, tuple(paths)))


def is_graph(layer: keras.Layer) -> bool:
    """Return whether a layer is a Sequential or Functional model."""
    is_sequential = isinstance(layer, keras.Sequential)
    return is_sequential or keras_internals.is_functional(layer)


def without_form(layer: keras.Layer) -> keras.Layer:
    """Return the layer in a model that `forms` has made around it, or the layer."""
    inner = layer.layers if keras_internals.is_functional(layer) else []
    return next((each for each in inner if _is_form(layer, each)), layer)


def _is_form(outer: keras.Layer, inner: Any) -> bool:
    return (
        keras_internals.is_functional(outer)
        and inner.name == outer.name
        and not keras_internals.is_functional(inner)
    )


def targets(layer: keras.Layer) -> list[Target]:
    """Return the targets of a layer, in the order of `layer.weights`."""
    by_variable: dict[int, Target] = {}
    for place in layers(layer):
        for target in _own_targets(place):
            first = by_variable.setdefault(id(target.variable), target)
            if first is not target:  # several layers share it
                paths = *first.paths, *target.paths
                by_variable[id(first.variable)] = first._replace(paths=paths)
    return [
        by_variable.get(id(item), Target(item, (), item.path)) for item in layer.weights
    ]


def _own_targets(place: Place) -> Iterator[Target]:
    """Yield the targets of a layer's own variables; those of attributes come first."""
    stored = dict.fromkeys(place.paths[1::3])
    variables = itertools.chain(*keras_internals.own_variables(place.layer))
    by_number = [
        Target(item, tuple(_join(path, f"vars/{number}") for path in stored), item.path)
        for number, item in enumerate(variables)
    ]
    positions = {id(target.variable): target.paths for target in by_number}
    places = dict.fromkeys(place.paths[::3] + place.paths[2::3])
    children = [(names[0], child) for names, child in _children(place.layer)]
    attributes = {name for name, _ in children}
    own = [(name, x) for name, x in children if isinstance(x, keras.Variable)]
    counts = collections.Counter(variable.name for _, variable in own)
    for name, variable in own:
        bases = (base.__name__ for base in type(place.layer).__mro__)
        names = [name, *(OLD_NAMES[x, name] for x in bases if (x, name) in OLD_NAMES)]
        if counts[variable.name] == 1 and variable.name not in attributes:
            names.append(variable.name)  # what `add_weight` was given
        paths = itertools.starmap(_join, itertools.product(places, names))
        positioned = positions.get(id(variable), ())
        yield Target(variable, (*paths, *positioned), variable.path)
    yield from by_number


def _children(layer: keras.Layer) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each layer and variable below a layer, with its name in each kind of path.

    A checkpoint counts those layers of a Sequential or Functional model that have
    weights.
    """
    if is_graph(layer):
        numbers = itertools.count()
        for inner in layer.layers:
            name = inner.name
            counted = f"{NUMBERED}{next(numbers)}" if _has_weights(inner) else name
            yield (name, name, counted), inner
        own = keras_internals.own_attributes(layer)
        yield from (((at,) * 3, v) for at, v in own if isinstance(v, keras.Variable))
        return
    for attribute, value in keras_internals.own_attributes(layer):
        name = attribute.lstrip("_")
        if isinstance(value, TRACKED):
            yield (name,) * 3, value
        elif isinstance(value, list | tuple | dict):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            tracked = [(key, item) for key, item in items if isinstance(item, TRACKED)]
            if not tracked:
                continue
            stored = numbered(type(item).__name__ for _, item in tracked)
            for (key, item), stored_name in zip(tracked, stored, strict=True):
                attribute = f"{name}/{key}"
                yield (attribute, f"{name}/{stored_name}", attribute), item


def _has_weights(layer: keras.Layer) -> bool:
    """Return `bool(layer.weights)`, which takes long if models are nested deeply."""
    own = map(keras_internals.own_variables, keras_internals.sublayers(layer))
    return any(trained or others for trained, others in own)


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def fits(variable: keras.Variable, weight: LegacyWeight) -> bool:
    """Return whether shape and kind of dtype (float, int, …) of both are equal.

    Biases of locally connected layers had other axes, those of EinsumDense also axes of
    length 1, and LayerNormalization now sorts its axes.
    """
    kinds = [
        next((kind for start, kind in KINDS.items() if name.startswith(start)), name)
        for name in (str(variable.dtype), str(weight.dtype))
    ]
    shape, stored = tuple(variable.shape), weight.shape
    is_bias = "bias" in variable.name and len(shape) > 1 < len(stored)
    is_same = is_bias and math.prod(shape) == math.prod(stored)
    is_moved = is_same and stored[-1] in (shape[0], shape[-1])
    is_vector = [n for n in stored if n != 1] == [*shape] != []
    is_sorted = variable.name in ("beta", "gamma") and sorted(shape) == sorted(stored)
    is_other = is_moved or is_sorted or ("bias" in variable.name and is_vector)
    return kinds[0] == kinds[1] and (shape == stored or is_other)


def value_for(variable: keras.Variable, weight: LegacyWeight) -> Tensor:
    """Read a weight, and return it in the dtype and the shape of its variable."""
    value = np.asarray(weight.read(), dtype=variable.dtype)
    return backend.place(value.reshape(variable.shape))


def assign(pairs: Pairs, advance: Callable[[int], None]) -> None:
    """Read the weights into their variables one by one; `advance` counts the bytes."""
    for variable, weight in pairs:
        variable.assign(value_for(variable, weight))
        advance(weight.size)


def settle(model: keras.Model) -> None:
    """Let Normalization layers compute the values that they derive from weights."""
    for layer in keras_internals.sublayers(model):
        if isinstance(layer, keras.layers.Normalization):
            layer.finalize_state()


def restore_states(model: keras.Model, recorded: LayerWeights) -> None:
    """Let stateful RNNs go on from recorded states; `recorded` has these by path."""
    for layer, paths in layers(model):
        weights = next((recorded[path] for path in paths if path in recorded), None)
        states = rnn_states.of(layer)
        if weights is None or not states:
            continue
        if [tuple(each.shape) for each in states] != [each.shape for each in weights]:
            with located(layer=paths[0]):
                raise LegacyModelError(
                    f"it has states of the shapes {[each.shape for each in weights]}, "
                    f"expected {[tuple(each.shape) for each in states]}."
                )
        for state, weight in zip(states, weights, strict=True):
            state.assign(value_for(state, weight))
        rnn_states.keep_in_files(layer)
