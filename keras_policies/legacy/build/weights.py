"""Pairs every variable of a Keras 3 model with its weight in a legacy file.

SavedModel and `.keras` files record the attributes that lead to a variable, and these
decide. HDF5 files record names: they are compared whole, then by their last three, two
and one parts, where equal endings are counted. Position alone never decides.
"""

import collections
import itertools
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras

from keras_policies import keras_internals
from keras_policies.legacy.base.configs import layer_name
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.weights import LegacyWeight, is_unknown
from keras_policies.legacy.build import cudnn, own_classes
from keras_policies.legacy.build.targets import Pairs, Target, fits, targets

NAME_PARTS = (3, 2, 1)
# Names in tf.keras -> names in Keras 3, of DepthwiseConv1D and 2D.
RENAMED = {"depthwise_kernel": "kernel"}
# By layer; `""` stands for the model itself.
ByLayer = Mapping[str, Sequence[LegacyWeight]]
LayersWithWeights = Sequence[tuple[keras.Layer, Sequence[LegacyWeight]]]


def _without_unknown(weights: Sequence[LegacyWeight]) -> Sequence[LegacyWeight]:
    """Return the weights that Keras 3 has too, in its layout."""
    return cudnn.as_keras([item for item in weights if not is_unknown(item)])


def pair(
    model: keras.Model,
    by_layer: ByLayer,
    more: str | None = None,
    built: LayersWithWeights = (),
) -> tuple[Pairs, list[str]]:
    """Return the variables of a whole model, each with its weight, and what is left.

    If `""` is the only name in `by_layer`, it has the weights of the whole model; else
    those that are in none of its layers. The error names every layer that does not fit.
    `more` says what the file may hold beside: `"added"`, weights that a program gave to
    layers of Keras's own, or `"objects"`, those of other objects than the model.
    `built` are layers whose weights are known.
    """
    layers = {layer.name: layer for layer in model.layers} | {"": model}
    # A model written in code may have the names as they are in the file.
    stored = {
        name if name in layers else layer_name(name): weights
        for name, weights in by_layer.items()
    }
    by_name = {"": targets(model)} if set(stored) == {""} else _by_layer(model)
    pairs: Pairs = []
    not_converted, problems = list[str](), list[str]()
    suspects: set[str] = set()

    def fit(
        name: str,
        layer: keras.Layer | None,
        variables: Sequence[Target] | None,
        weights: Sequence[LegacyWeight],
    ) -> None:
        usable = _without_unknown(weights)
        matched = _match(variables or (), usable)
        is_inside = layer is not None and layer is not model
        if matched is None and more == "added" and is_inside:
            if all(map(own_classes.is_stock, keras_internals.sublayers(layer))):
                matched = _match_some(variables or (), usable, among_objects=False)
        elif matched is None and more == "objects" and set(stored) == {""}:
            matched = _match_some(variables or (), usable, among_objects=True)
        if matched is None:
            wrong = [_difference(name, variables, usable)]
        else:
            wrong = _misfits(name, matched)
            pairs.extend(matched)
            rest = _without(matched, usable)
            not_converted.extend(
                f"{each}, which is no weight of {name!r}" for each in rest
            )
        problems.extend(wrong)
        if wrong and layer is not None:
            suspects.update(own_classes.stock_names(layer))

    in_programs: set[int] = set()  # a layer in several models is in each of them

    def free(variables: Sequence[Target]) -> list[Target]:
        return [item for item in variables if id(item.variable) not in in_programs]

    for layer, weights in built:
        variables = free(targets(layer))
        fit(layer.name, layer, variables, weights)
        in_programs |= {id(item.variable) for item in variables}
    for name in dict.fromkeys((*by_name, *stored)):
        variables_of = free(by_name[name]) if name in by_name else None
        fit(name or model.name, layers.get(name), variables_of, stored.get(name, ()))
    if problems:
        listed = "\n  ".join(problems)
        reason = f"the weights do not fit the model, so none was loaded:\n  {listed}"
        raise LegacyModelError(reason, suspects=suspects)
    return pairs, not_converted


def _by_layer(model: keras.Model) -> dict[str, list[Target]]:
    in_layers = {id(item) for layer in model.layers for item in layer.weights}
    of_model = [
        target for target in targets(model) if id(target.variable) not in in_layers
    ]
    return {**{layer.name: targets(layer) for layer in model.layers}, "": of_model}


def by_model_names(model: keras.Model, by_layer: ByLayer) -> ByLayer:
    """Return `by_layer` under the names of the model's layers.

    A checkpoint numbers the layers that have weights, and a model that is built again
    may number its layers differently (`dense_4`). Then the order of the layers decides,
    as in tf.keras, and there must be as many; `pair` compares the weights of each.
    """
    variables = {layer.name: layer.weights for layer in model.layers if layer.weights}
    usable = {
        name: _without_unknown(weights) for name, weights in by_layer.items() if name
    }
    stored = {name: weights for name, weights in usable.items() if weights}
    if set(stored) <= set(variables):
        return by_layer
    if len(stored) != len(variables):
        raise _other_layers(variables, stored)
    renamed = dict(zip(variables, (by_layer[name] for name in stored), strict=True))
    return renamed | {name: by_layer[name] for name in by_layer if not name}


def _match(
    variables: Sequence[Target], weights: Sequence[LegacyWeight]
) -> Pairs | None:
    """Return the variables of a layer with their weights, or None if they differ."""
    if len(variables) != len(weights):
        return None
    return next(_complete(variables, weights), None)


def _match_some(
    variables: Sequence[Target], weights: Sequence[LegacyWeight], among_objects: bool
) -> Pairs | None:
    """Return the same where the file has more weights than the layer.

    Those that `add_weight` gave to it must be told from its own by their shapes: a
    `.keras` file has no names. Among objects, such as metrics and optimizers, the
    attributes that lead to a variable decide, and a layer has to have all its weights.
    """
    pairs = next(_complete(variables, weights, by_path=among_objects), [])
    tell = _owner if among_objects else operator.attrgetter("shape")
    paired = {tell(weight) for _, weight in pairs}
    is_told = all(tell(weight) not in paired for weight in _without(pairs, weights))
    return pairs if pairs and is_told else None


def _without(pairs: Pairs, weights: Sequence[LegacyWeight]) -> list[LegacyWeight]:
    """Return the weights that are in no pair."""
    paired = {id(weight) for _, weight in pairs}
    return [weight for weight in weights if id(weight) not in paired]


def _owner(weight: LegacyWeight) -> str:
    return weight.path.rpartition("/")[0]


def _complete(
    targets: Sequence[Target], weights: Sequence[LegacyWeight], by_path: bool = False
) -> Iterator[Pairs]:
    """Yield the pairs in which each variable has a weight, the surest first."""
    for variables, wanted in itertools.islice(_keys(targets, weights), by_path or None):
        pairs = [
            (variables[key], weight)
            for key, weight in zip(wanted, weights, strict=True)
            if key in variables
        ]
        if len(pairs) == len({id(variable) for variable, _ in pairs}) == len(targets):
            yield pairs


def _keys(
    targets: Sequence[Target], weights: Sequence[LegacyWeight]
) -> Iterator[tuple[Mapping[str, keras.Variable], list[str]]]:
    """Yield `({key: variable}, [key of each weight])`, the most exact keys first."""
    by_path = {_plain(path): item.variable for item in targets for path in item.paths}
    yield by_path, [_plain(weight.path) for weight in weights]
    names = [weight.name or weight.path for weight in weights]
    # `conv1/bn/gamma` of a layer `conv1/bn` is `model/conv1_bn/gamma` in Keras 3.
    by_name = {_flat(item.name.partition("/")[2]): item.variable for item in targets}
    yield by_name, [_flat(name) for name in names]
    renamed = [RENAMED.get(name.rpartition("/")[2], name) for name in names]
    for names, parts in [(names, parts) for parts in NAME_PARTS] + [(renamed, 1)]:
        endings = _counted_endings((item.name for item in targets), parts)
        by_ending = {
            key: item.variable for key, item in zip(endings, targets, strict=True)
        }
        yield by_ending, _counted_endings(names, parts)


def _plain(path: str) -> str:
    """Return a path in which a `/` in the name of a layer looks like any other."""
    return "_".join(part.lstrip("_") for part in path.split("/"))


def _flat(name: str) -> str:
    return layer_name(name.partition(":")[0]).lower()


def _counted_endings(names: Iterable[str], parts: int) -> list[str]:
    """Return the last parts of names, each with the number of equal ones before it."""
    seen: collections.Counter[str] = collections.Counter()
    keys = []
    for name in names:
        *scopes, last = name.split("/")[-parts:]
        # Unnamed variables are numbered: `variable_3`.
        last = re.sub(r"^(variable)_\d+$", r"\1", last.lower())
        ending = "/".join([*scopes, last])
        keys.append(f"{seen[ending]} {ending}")
        seen[ending] += 1
    return keys


def _misfits(layer: str, pairs: Pairs) -> list[str]:
    """Return a sentence for each weight that its variable cannot take."""
    return [
        f"{layer!r}: {variable.path} has the shape {tuple(variable.shape)}, the file's "
        f"{weight.name or weight.path} has {weight.shape} of {weight.dtype}"
        for variable, weight in pairs
        if not fits(variable, weight)
    ]


def _difference(
    layer: str, targets: Sequence[Target] | None, weights: Sequence[LegacyWeight]
) -> str:
    """Return a sentence on a layer whose weights have other names in the file."""
    if targets is None:
        return f"{layer!r} is no layer of the model"
    variables = ", ".join(
        f"{item.name} {tuple(item.variable.shape)}" for item in targets
    )
    stored = ", ".join(map(str, weights)) or "none"
    return (
        f"{layer!r} has the weights [{variables or 'none'}], the file holds [{stored}]"
    )


def _other_layers(
    by_name: Mapping[str, Sequence[keras.Variable]],
    stored: Mapping[str, Sequence[LegacyWeight]],
) -> LegacyModelError:
    """Return the error for a file with other layers than the model; both by layer."""
    pairs = itertools.zip_longest(
        by_name.items(), stored.items(), fillvalue=("none", ())
    )
    name, variables, in_file, weights = next(
        (*layer, *other)
        for layer, other in pairs
        if sorted(_shapes(layer[1])) != sorted(_shapes(other[1]))
    )
    return LegacyModelError(
        f"the model has {len(by_name)} layers with weights, the file {len(stored)}, so "
        f"none was loaded. The first that differ: {name!r} with {_shapes(variables)}, "
        f"in the file {in_file!r} with {_shapes(weights)}.",
        "Layers are compared by name where the model has all names in the file: call "
        "keras.utils.clear_session() before you build it, so that Keras counts anew.",
    )


def _shapes(weights: Sequence[Any]) -> list[tuple[int, ...]]:
    return [tuple(weight.shape) for weight in weights]
