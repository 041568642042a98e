"""Pairs every variable of a Keras 3 model with its weight in a legacy file."""

from collections.abc import Mapping, Sequence

import keras

from keras_policies import keras_internals
from keras_policies.legacy.base.configs import layer_name, numbered
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import LegacyWeight, is_unknown
from keras_policies.legacy.build import cudnn, matching, own_classes
from keras_policies.legacy.build.targets import Pairs, Target, targets

# By layer; `""` stands for the model itself.
ByLayer = Mapping[str, Sequence[LegacyWeight]]
Made = Sequence[tuple[keras.Layer, Sequence[LegacyWeight]]]


def _known(weights: Sequence[LegacyWeight]) -> Sequence[LegacyWeight]:
    """Return the weights that Keras 3 has too, in its layout."""
    return cudnn.as_keras([item for item in weights if not is_unknown(item)])


def pair(
    model: keras.Model, by_layer: ByLayer, more: str | None = None, made: Made = ()
) -> tuple[Pairs, list[str]]:
    """Return the variables of a whole model, each with its weight, and what is left.

    If `""` is the only name in `by_layer`, it has the weights of the whole model; else
    those that are in none of its layers. The error names every layer that does not fit.
    `more` says what the file may hold beside: `"added"`, weights that a program gave to
    layers of Keras's own, or `"objects"`, those of other objects than the model. `made`
    are layers whose weights are known.
    """
    stored = {layer_name(name): weights for name, weights in by_layer.items()}
    layers = {layer.name: layer for layer in model.layers} | {"": model}
    held = _whole_model(model) if set(stored) == {""} else _by_layer(model)
    pairs: Pairs = []
    left, problems = list[str](), list[str]()
    suspects: set[str] = set()

    def fit(
        name: str,
        layer: keras.Layer | None,
        variables: Sequence[Target] | None,
        weights: Sequence[LegacyWeight],
    ) -> None:
        known = _known(weights)
        matched = matching.match(variables or (), known)
        is_inside = layer is not None and layer is not model
        if matched is None and more == "added" and is_inside and _is_stock(layer):
            matched = matching.match_with_added(variables or (), known)
        elif matched is None and more == "objects" and set(stored) == {""}:
            matched = matching.match_objects(variables or (), known)
        if matched is None:
            wrong = [matching.difference(name, variables, known)]
        else:
            wrong = matching.misfits(name, matched)
            pairs.extend(matched)
            rest = matching.without(matched, known)
            left.extend(f"{each}, which is no weight of {name!r}" for each in rest)
        problems.extend(wrong)
        if wrong and layer is not None:
            suspects.update(own_classes.stock_names(layer))

    in_programs: set[int] = set()  # a layer in several models is in each of them

    def free(variables: Sequence[Target]) -> list[Target]:
        return [one for one in variables if id(one.variable) not in in_programs]

    for layer, weights in made:
        variables = free(targets(layer))
        fit(layer.name, layer, variables, weights)
        in_programs |= {id(one.variable) for one in variables}
    for name in dict.fromkeys((*held, *stored)):
        own = free(held[name]) if name in held else None
        fit(name or model.name, layers.get(name), own, stored.get(name, ()))
    if problems:
        listed = "\n  ".join(problems)
        reason = f"the weights do not fit the model, so none was loaded:\n  {listed}"
        raise LegacyModelError(reason, suspects=suspects)
    return pairs, left


def _is_stock(layer: keras.Layer) -> bool:
    return all(map(own_classes.is_stock, keras_internals.sublayers(layer)))


def _by_layer(model: keras.Model) -> dict[str, list[Target]]:
    inner = {id(item) for layer in model.layers for item in layer.weights}
    own = [target for target in targets(model) if id(target.variable) not in inner]
    return {**{layer.name: targets(layer) for layer in model.layers}, "": own}


def _whole_model(model: keras.Model) -> dict[str, list[Target]]:
    """Return the targets of a subclassed model, with their paths in a `.keras` file.

    That file lists the layers, `layers/dense_1/vars/0`, and has no attributes.
    """
    names = numbered(type(layer).__name__ for layer in model.layers)
    listed = {
        id(target.variable): tuple(f"layers/{name}/{path}" for path in target.paths)
        for name, layer in zip(names, model.layers, strict=True)
        for target in targets(layer)
    }
    found = targets(model)
    added = [listed.get(id(item.variable), ()) for item in found]
    pairs = zip(found, added, strict=True)
    return {"": [item._replace(paths=item.paths + more) for item, more in pairs]}


def by_model_names(model: keras.Model, by_layer: ByLayer) -> ByLayer:
    """Return `by_layer` under the names of the model's layers.

    A checkpoint numbers the layers that have weights, and a model that is built again
    may number its layers differently (`dense_4`). Then the order of the layers decides,
    as in tf.keras, and there must be as many; `pair` compares the weights of each.
    """
    held = {layer.name: layer.weights for layer in model.layers if layer.weights}
    known = {name: _known(weights) for name, weights in by_layer.items() if name}
    stored = {name: weights for name, weights in known.items() if weights}
    if set(stored) <= set(held):
        return by_layer
    if len(stored) != len(held):
        raise matching.other_layers(held, stored)
    renamed = dict(zip(held, (by_layer[name] for name in stored), strict=True))
    return renamed | {name: by_layer[name] for name in by_layer if not name}
