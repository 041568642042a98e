"""Pairs every variable of a Keras 3 model with its weight in a legacy file.

SavedModels, `.keras` files and checkpoints record the attributes that lead to a
variable. An HDF5 file lists the weights of a layer in an order, which `weight_orders`
computes from what was frozen; where the file does not record that, names and shapes
have to leave one order.
"""

import collections
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import keras

from keras_policies import keras_internals
from keras_policies._common.text import cut
from keras_policies._common.types import Config
from keras_policies.legacy.assembly import (
    cudnn,
    own_classes,
    weight_names,
    weight_orders,
)
from keras_policies.legacy.assembly.targets import Pairs, Target, fits, targets
from keras_policies.legacy.assembly.weight_orders import (
    ATTRIBUTES,
    Listings,
    Part,
    Parts,
)
from keras_policies.legacy.base import configs, hints
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.base.weights import LegacyWeight, is_unknown
from keras_policies.legacy.guards import budget

Weights: TypeAlias = Sequence[LegacyWeight]
# By layer; `""` stands for the model itself.
ByLayer: TypeAlias = Mapping[str, Weights]
LayersWithWeights: TypeAlias = Sequence[tuple[keras.Layer, Weights]]


@located(code="KP402")
def pair(
    model: keras.Model,
    by_layer: ByLayer,
    config: Config | None = None,
    built: LayersWithWeights = (),
    *,
    skips: bool = False,
    some: bool = False,
    frozen: Collection[int] | None = None,
) -> tuple[Pairs, list[str]]:
    """Return the variables of a whole model, each with its weight, and what is left.

    If `""` is the only name in `by_layer`, it has the weights of the whole model; else
    those that are in none of its layers.

    Args:
        model: `keras.Model`, built.
        by_layer: the weights of the file.
        config: the model's, from the same file, which may also have weights that a
            program gave to stock layers; these are returned as left. None for a model
            made in code: any part may have been frozen when the file was saved, and a
            checkpoint may also contain other objects.
        built: layers whose weights are known.
        skips: whether weights that do not fit are left.
        some: whether the model or the file may have layers that the other has not.
        frozen: the ids of the layers that were frozen, if that is known.

    Raises:
        LegacyModelError: if something does not fit; it names every such layer.
    """
    # A model written in code may have the names as they are in the file.
    names = {layer.name for layer in model.layers} | {""}
    renamed = {n: n if n in names else configs.layer_name(n) for n in by_layer}
    stored = {renamed[name]: weights for name, weights in by_layer.items()}
    inner = configs.inner_layers(config or {})
    written = configs.by_name(inner)
    wanted, left, problems = _matched(
        model, stored, built, is_in_code=config is None, some=some
    )
    is_whole = config is None and set(stored) == {""}
    owner = (lambda weight: weight.path.rpartition("/")[0]) if is_whole else None
    pairs, suspects = Pairs(), set[str]()
    for layer, variables, weights in wanted:
        is_stock = (
            config is not None
            and layer is not model
            and all(map(own_classes.is_stock, keras_internals.sublayers(layer)))
        )
        other = _shape if is_stock else owner
        usable = cudnn.as_keras([item for item in weights if not is_unknown(item)])
        try:
            own = written.get(layer.name)
            found, rest = _fit(layer, variables, usable, own, other, frozen)
        except _MisfitError as error:
            found, rest = error.pairs, ()
            problems += error.problems or [_difference(layer, variables, usable)]
            suspects |= own_classes.stock_names(layer)
        pairs += found
        left += [f"{each}, which is no weight of {layer.name!r}" for each in rest]
    missing = problems or (left if some else [])
    if (problems and not skips) or (missing and not pairs):
        listed = "\n  ".join(cut(missing))
        reason = f"the weights do not fit the model, so none was loaded:\n  {listed}"
        tried = {"by_name": some or is_whole, "skips": skips or not pairs}
        hint = hints.skipping(**tried) if config is None else ""
        raise LegacyModelError(reason, hint, suspects=suspects)
    return pairs, left + problems


def _matched(
    model: keras.Model,
    stored: ByLayer,
    built: LayersWithWeights,
    *,
    is_in_code: bool,
    some: bool,
) -> tuple[list[tuple[keras.Layer, list[Target], Weights]], list[str], list[str]]:
    """Return layers with variables and weights, what is left, and what is missing."""
    is_whole = set(stored) == {""}
    listed = {"": targets(model)} if is_whole else _by_layer(model)
    layers = {layer.name: layer for layer in model.layers} | {"": model}
    wanted, left, problems = [], list[str](), list[str]()
    taken = set[int]()  # a layer of a program in several models is in each of them
    for layer, weights in built:
        wanted.append((layer, _without(taken, targets(layer)), weights))
        taken |= {id(item) for item in layer.weights}
    for name in dict.fromkeys((*listed, *stored)):
        weights = stored.get(name, ())
        is_beside = is_in_code and any(item.path for item in weights)
        if not name and not is_whole and is_beside and not listed[name]:
            continue  # a counter beside the model in a checkpoint
        if not name and name not in stored:  # HDF5 files of older releases lack them
            left += [
                f"{item.name!r}, the model's own weight, which is not in the file"
                for item in listed[name]
            ]
        elif name in layers and (weights or not some):
            wanted.append((layers[name], _without(taken, listed[name]), weights))
        elif weights or listed.get(name):
            where = "the file" if name in layers else "the model"
            problem = f"{name or model.name!r} is no layer of {where}"
            (left if some else problems).append(problem)
    return wanted, left, problems


def _without(taken: Collection[int], variables: Sequence[Target]) -> list[Target]:
    return [item for item in variables if id(item.variable) not in taken]


def _fit(
    layer: keras.Layer,
    variables: Sequence[Target],
    weights: Weights,
    config: Config | None,
    other: Callable[[LegacyWeight], Any] | None,
    frozen: Collection[int] | None,
) -> tuple[Pairs, Weights]:
    """Return the variables of a layer, each with its weight, and what is left.

    `other` returns a property, shape or owner, by which extra weights must differ from
    all paired ones. Without it, extra weights are an error.
    """
    if any(weight.path for weight in weights):
        found = _by_attributes(variables, weights)
    else:
        kept = weights
        if other and len(weights) > len(variables):
            kept = _fitting(weights, variables)
        free = {id(item.variable) for item in variables}
        in_code = Parts(free, by_code=True).part(layer, config)
        part = Parts(free, frozen=frozen).part(layer, config)
        found = _by_order(part, in_code, kept)
    paired = {id(weight) for _, weight in found}
    rest = [weight for weight in weights if id(weight) not in paired]
    if rest and not (
        other and {other(w) for _, w in found}.isdisjoint(map(other, rest))
    ):
        raise _MisfitError
    return found, rest


def _fitting(weights: Weights, variables: Sequence[Target]) -> Weights:
    """Return the weights that fit any of some variables."""
    kinds = {(weight.shape, weight.dtype): weight for weight in weights}
    budget.work(budget.PAIR * len(kinds) * len(variables))
    fitting = {
        kind
        for kind, weight in kinds.items()
        if any(fits(item.variable, weight) for item in variables)
    }
    return [weight for weight in weights if (weight.shape, weight.dtype) in fitting]


class _MisfitError(Exception):
    """The weights of a layer do not fit, but for `pairs`.

    There are no `problems` if these are too many.
    """

    def __init__(
        self, problems: Sequence[str] = (), pairs: Pairs | None = None
    ) -> None:
        self.problems, self.pairs = problems, pairs or []


def _by_layer(model: keras.Model) -> dict[str, list[Target]]:
    in_layers = {id(item) for layer in model.layers for item in layer.weights}
    of_model = [
        target for target in targets(model) if id(target.variable) not in in_layers
    ]
    return {**{layer.name: targets(layer) for layer in model.layers}, "": of_model}


@located(code="KP402")
def by_position(model: keras.Model, by_layer: ByLayer, *, skips: bool) -> ByLayer:
    """Return `by_layer` under the names of the model's layers that have weights.

    Layers go by their order, as in tf.keras. A name that nobody counted must agree:
    Keras 3 may sort the layers of a graph in another way. If `skips`, a checkpoint may
    have more or fewer layers, since it numbers them.
    """
    stored = {
        name: usable
        for name, weights in by_layer.items()
        if name and (usable := [item for item in weights if not is_unknown(item)])
    }
    if not stored and "" in by_layer:
        return by_layer
    hint = hints.skipping(by_name=False, skips=skips)
    variables = {layer.name: layer for layer in _in_order(model, stored, hint)}
    is_numbered = any(item.path for weights in stored.values() for item in weights)
    if len(stored) != len(variables) and not (skips and is_numbered):
        raise _other_layers(variables, stored, hint)
    for name, in_file in zip(variables, stored, strict=False):
        if (
            in_file != name
            and in_file in variables
            and not weight_names.is_automatic(variables[in_file])
        ):
            raise LegacyModelError(
                f"the model has its layer {name!r} where the file has {in_file!r}.",
                hint,
            )
    names = {"": "", **{name: name for name in stored}}
    names |= dict(zip(stored, variables, strict=False))
    return {names[name]: by_layer[name] for name in by_layer if name in names}


def _in_order(
    model: keras.Model, stored: Mapping[str, Weights], hint: str
) -> Sequence[keras.Layer]:
    """Return the layers of a model that have weights, in the order of the file."""
    orders = weight_orders.orders(model)
    if len(orders) == 1:
        return orders[0]
    wanted = [sorted(map(_shape, weights)) for weights in stored.values()]
    fitting = [
        order
        for order in orders
        if [sorted(map(_shape, layer.weights)) for layer in order] == wanted
    ]
    numbers = weight_names.ranks(stored)
    named = [
        order
        for order in fitting
        if weight_names.ranks(layer.name for layer in order) == numbers
    ]
    if len(named or fitting) > 1:
        raise LegacyModelError(
            "its layers may have several orders, since it has them in lists, and "
            "neither shapes nor names tell which one is that of the file.",
            hint,
        )
    return (named or fitting or orders)[0]


def _by_attributes(variables: Sequence[Target], weights: Weights) -> Pairs:
    """Return the variables of a layer, each with the weight at its attributes."""
    by_path = {_plain(path): item.variable for item in variables for path in item.paths}
    paths = [(_plain(weight.path), weight) for weight in weights]
    pairs = [(by_path[path], weight) for path, weight in paths if path in by_path]
    copies = collections.defaultdict[int, list[LegacyWeight]](list)
    for variable, weight in pairs:
        copies[id(variable)].append(weight)
    if len(copies) != len(variables) or not all(map(_are_equal, copies.values())):
        raise _MisfitError(pairs=[pair for pair in pairs if fits(*pair)])
    if wrong := _misfits(pairs):
        raise _MisfitError(wrong, [pair for pair in pairs if fits(*pair)])
    return pairs


def _are_equal(weights: Weights) -> bool:
    """Return whether weights have the same values.

    A `.keras` file has a variable once for each layer that it is an attribute of, such
    as the kernel of the layer in a SpectralNormalization.
    """
    first, *others = (weight.read().tobytes() for weight in weights)
    return all(first == other for other in others)


def _by_order(part: Part, code: Part, weights: Weights) -> Pairs:
    """Return the variables of a layer with weights that an HDF5 file lists.

    `code` has the flags of the model in memory, if those of the file are not known. It
    decides if the names of the file, numbered as those of the model, say the same.
    """
    if part.size != len(weights):
        raise _MisfitError
    allowed = weight_names.may_be(part, weights)
    ways = Listings(allowed).of_layer(part)
    if len(ways) > 1:
        trusting = Listings(weight_names.may_be(part, weights, trusts_all=True))
        named, coded = trusting.of_layer(part), trusting.of_layer(code)
        if len(named) == len(coded) == 1 and {*named[0]} == {*coded[0]}:
            ways = coded
    free = (variable for *_, each in part.inside() for variable in each.own)
    by_id = {id(variable): variable for variable in free}
    any_way = Listings(lambda variable, place: True)
    found = [
        {place: by_id[key] for place, key in sorted(way)}
        for way in ways or any_way.of_layer(code)
    ]
    pairs = [(variable, weights[place]) for place, variable in found[0].items()]
    if not ways:
        wrong = [
            f"by the order in the file, {variable.path} would be its {weight.name}"
            for place, (variable, weight) in enumerate(pairs)
            if not allowed(variable, place)
        ]
        is_sure = len(any_way.of_layer(part)) == 1
        kept = (allowed(variable, place) for place, (variable, _) in enumerate(pairs))
        raise _MisfitError(
            _misfits(pairs) or wrong[:1],
            [*itertools.compress(pairs, kept)] if is_sure else [],
        )
    if len(ways) > 1:
        place = next(at for at in found[0] if found[0][at] is not found[1][at])
        either = " or ".join(way[place].path for way in found)
        raise _MisfitError(
            [
                f"the file's {weights[place]} may be {either}: it does not record "
                f"which parts of {part.layer.name!r} were frozen. {ATTRIBUTES}"
            ]
        )
    return pairs


def _shape(item: Any) -> tuple[int, ...]:
    return tuple(item.shape)


def _plain(path: str) -> str:
    """Return a path in which a `/` in the name of a layer looks like any other."""
    return "_".join(part.lstrip("_") for part in path.split("/"))


def _misfits(pairs: Pairs) -> list[str]:
    """Return a sentence for each weight that its variable cannot take."""
    return [
        f"{variable.path} has the shape {tuple(variable.shape)}, the file's "
        f"{weight.name or weight.path} has {weight.shape} of {weight.dtype}"
        for variable, weight in pairs
        if not fits(variable, weight)
    ]


def _difference(layer: keras.Layer, targets: Sequence[Target], weights: Weights) -> str:
    """Return a sentence on a layer that has other weights than the file."""
    variables = ", ".join(
        f"{item.name} {tuple(item.variable.shape)}" for item in targets
    )
    stored = ", ".join(map(str, weights)) or "none"
    held = variables or "none"
    return f"{layer.name!r} has the weights [{held}], the file holds [{stored}]"


def _other_layers(
    by_name: Mapping[str, keras.Layer], stored: Mapping[str, Weights], hint: str
) -> LegacyModelError:
    """Return the error for a file with more or fewer layers than the model."""
    layers = [(name, [*map(_shape, layer.weights)]) for name, layer in by_name.items()]
    in_file = [(name, [*map(_shape, weights)]) for name, weights in stored.items()]
    none = "none", list[tuple[int, ...]]()
    (name, shapes), (other, others) = next(
        (one, other)
        for one, other in itertools.zip_longest(layers, in_file, fillvalue=none)
        if sorted(one[1]) != sorted(other[1])
    )
    return LegacyModelError(
        f"the model has {len(layers)} layers with weights, the file {len(in_file)}, so "
        f"none was loaded. The first that differ: {name!r} with {shapes}, in the file "
        f"{other!r} with {others}.",
        hint,
    )
