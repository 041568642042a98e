"""Finds the object of a checkpoint that is the model, and names the layers in paths."""

import collections
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras

from keras_policies import keras_internals
from keras_policies.legacy.base.errors import LegacyModelError, LimitError
from keras_policies.legacy.base.weights import LegacyWeight
from keras_policies.legacy.build import targets
from keras_policies.legacy.build.targets import Pairs
from keras_policies.legacy.build.weights import ByLayer

NUMBER = "layer-"  # of a layer in its Sequential or Functional model
Fitted = tuple[Pairs, list[str]]  # the strings say what is not loaded


def fitting(
    objects: Mapping[str, ByLayer],
    meant: str | None,
    fit: Callable[[ByLayer], Fitted],
) -> tuple[str, Fitted]:
    """Return the name of the one object that fits the model, and what `fit` returns.

    `objects` are the weights of the candidates by name. If none fits, raise the error
    of the object `meant`, or one that lists all.
    """
    fitted: dict[frozenset[int], tuple[str, Fitted]] = {}
    problems: dict[str, LegacyModelError] = {}
    for name, by_layer in objects.items():
        try:
            pairs, rest = fit(by_layer)
        except LimitError:
            raise
        except LegacyModelError as error:
            problems[name] = error
        else:  # the root and an object in it may lead to the same variables
            numbers = frozenset(w.number for _, w in pairs if w.number is not None)
            fitted.setdefault(numbers, (name, (pairs, rest)))
    if len(fitted) == 1:
        return next(iter(fitted.values()))
    if meant is not None and not fitted:
        raise problems[meant]
    names = [name for name, _ in fitted.values()] or sorted(filter(None, objects))
    reason = f"several objects of the checkpoint fit the model: {names}."
    if not fitted:
        reason = f"no object of the checkpoint fits the model: {names}."
    raise LegacyModelError(
        reason, f"Pass the one you mean, as root={names[-1]!r}.", code="KP109"
    )


def with_layer_names(model: keras.Model, by_layer: ByLayer) -> ByLayer:
    """Replace the numbers of layers in paths by their names.

    A checkpoint numbers the layers of a Sequential or Functional model inside another
    object: `towers/layer-1/embeddings` becomes `towers/embedding/embeddings`.
    """
    layers = {layer.name: layer for layer in model.layers} | {"": model}
    return {
        name: tuple(_named(layers[name], weights)) if name in layers else weights
        for name, weights in by_layer.items()
    }


def _named(
    layer: keras.Layer, weights: Sequence[LegacyWeight]
) -> Iterator[LegacyWeight]:
    models = {
        place.path: place.layer.layers
        for place in targets.layers(layer)
        if isinstance(place.layer, keras.Sequential)
        or keras_internals.is_functional(place.layer)
    }
    parts, named = [weight.path.split("/") for weight in weights], [""] * len(weights)
    for depth in range(max(map(len, parts), default=0)):
        deep = [at for at, each in enumerate(parts) if depth < len(each)]
        found = collections.defaultdict[str, set[int]](set)
        for at in deep:
            if (number := _number(parts[at][depth])) is not None:
                found[named[at]].add(number)
        layers = {at: _numbered(models.get(at, ()), found[at]) for at in found}
        for at in deep:
            path, part = named[at], parts[at][depth]
            name = layers.get(path, {}).get(_number(part), part.lstrip("_"))
            named[at] = f"{path}/{name}" if path else name
    for weight, path in zip(weights, named, strict=True):
        yield dataclasses.replace(weight, path=path)


def _number(part: str) -> int | None:
    number = part.removeprefix(NUMBER)
    return int(number) if number != part and number.isdecimal() else None


def _numbered(layers: Sequence[keras.Layer], found: set[int]) -> dict[int | None, str]:
    """Return `{number in a file: name}`; `found` are those of layers with weights.

    TensorFlow 2.0 counts the InputLayer of a Sequential, which is not among its layers.
    """
    shifted = {number for number, layer in enumerate(layers, 1) if layer.weights}
    first = 1 if found == shifted else 0
    return {number: layer.name for number, layer in enumerate(layers, first)}
