"""What the names in an HDF5 file say about which weight may be which variable."""

import collections
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import keras

from keras_policies.legacy.base.configs import layer_name, snake_case
from keras_policies.legacy.base.weights import LegacyWeight
from keras_policies.legacy.build.own_classes import is_stock
from keras_policies.legacy.build.targets import fits
from keras_policies.legacy.build.weight_orders import Part, is_graph

# Names in tf.keras -> names in Keras 3, of DepthwiseConv1D and 2D.
RENAMED = {"depthwise_kernel": "kernel"}
# How a Bidirectional begins the names of its copies of a layer.
COPIES = "forward_", "backward_"
COUNTED = re.compile(r"(.*?)(?:_(\d+))?")  # kind and number
# Layers that give their own name to the weights of the layer in them.
WRAPPERS = keras.layers.TimeDistributed, keras.layers.SpectralNormalization
# The layer of a user's class that made others, or None for a program; and their kind.
Group: TypeAlias = tuple[int | None, str]


def may_be(
    part: Part, weights: Sequence[LegacyWeight], *, trusts_all: bool = False
) -> Callable[[keras.Variable, int], bool]:
    """Return whether a variable of a part may be the weight at a position.

    The shapes must fit, and a name that the part has must be that of the variable, or
    of a layer around it. A class makes its layers in one order, so the numbers in their
    automatic names grow alike: `dense_4` and `dense_5` in the file are `dense` and
    `dense_1`. That is less sure of layers that a program makes, or a `build`, where
    tf.keras may count anew: only `trusts_all` takes it for a fact.
    """
    around, variable_names = dict[int, set[int]](), set[str]()
    named = collections.defaultdict[str, set[int]](set)  # layers by names in the file
    groups = collections.defaultdict[Group, list[tuple[int, int]]](list)
    unsure, given = set[Group](), {layer_name(name) for name in _names(part.config)}
    given |= {start + name for start in COPIES for name in given}
    for *outer, last in part.inside():
        around[id(last)] = {id(each) for each in (*outer, last)}
        for variable in (*last.trained, *last.others):
            around[id(variable)] = around[id(last)]
            variable_names.add(variable.name)
        if last.layer.name in given or not is_automatic(last.layer):
            named[last.layer.name].add(id(last))
        elif (
            is_graph(last.layer)
            or not outer
            or not isinstance(outer[-1].layer, WRAPPERS)
        ):
            within = itertools.takewhile(
                lambda each: not is_graph(each.layer), outer[::-1]
            )
            makers = [each for each in within if not is_stock(each.layer)]
            kind, number = _counted(last.layer.name)
            group = id(makers[-1]) if makers else None, kind
            groups[group].append((number, id(last)))
            if not makers or any(_has_build(each.layer) for each in makers):
                unsure.add(group)
    scopes = [weight.name.split("/")[:-1] for weight in weights]
    for (maker, kind), layers in groups.items():
        found = {
            (number, scope)
            for each in scopes
            if maker in (None, id(part)) or any(maker in named[scope] for scope in each)
            for scope in each
            for prefix, number in [_counted(scope)]
            if prefix == kind and scope not in given
        }
        if len(found) == len(layers):
            steps = {
                old - new
                for (old, _), (new, _) in zip(
                    sorted(found), sorted(layers), strict=True
                )
            }
            is_sure = trusts_all or (len(steps) == 1 and (maker, kind) not in unsure)
            is_sure &= len({number for number, _ in layers}) == len(layers)
            for (_, name), (_, layer) in zip(
                sorted(found), sorted(layers), strict=True
            ):
                named[name] |= {layer} if is_sure else {key for _, key in layers}
    owners = [
        [named[name] for name in _joined(each) if name in named] for each in scopes
    ]

    def allowed(variable: keras.Variable, place: int) -> bool:
        if place >= len(weights):
            return False
        weight = weights[place]
        name = weight.name.rpartition("/")[2].partition(":")[0]
        if name in variable_names and variable.name not in (name, RENAMED.get(name)):
            return False
        is_owned = all(around[id(variable)] & each for each in owners[place] if each)
        return is_owned and fits(variable, weight)

    return allowed


def is_automatic(layer: keras.Layer) -> bool:
    """Return whether a layer has the name of its class, with a number perhaps."""
    name = layer.name
    for start in COPIES:
        name = name.removeprefix(start)
    return _counted(name)[0] == snake_case(type(layer).__name__).replace("_", "")


def ranks(names: Iterable[str]) -> list[tuple[str, int]]:
    """Return the kind of each name, and its rank among those of the kind."""
    counted = [*map(_counted, names)]
    return [(kind, sorted(counted).index((kind, n))) for kind, n in counted]


def _counted(name: str) -> tuple[str, int]:
    """Return kind and number of a name: tf.keras 2.0 wrote `conv_lst_m2d_1`."""
    match = COUNTED.fullmatch(name)
    kind, number = match.groups() if match else (name, None)
    return kind.replace("_", ""), int(number or 0)


def _has_build(layer: keras.Layer) -> bool:
    """Return whether a user's class has a `build` of its own."""
    classes = (
        cls for cls in type(layer).mro() if not cls.__module__.startswith("keras.")
    )
    return any("build" in vars(cls) for cls in classes)


def _joined(scopes: Sequence[str]) -> Iterator[str]:
    """Yield the scopes, and runs of them: a layer may be called `conv1/bn`."""
    for start, end in itertools.combinations(range(len(scopes) + 1), 2):
        yield "_".join(scopes[start:end])


def _names(config: Any) -> Iterator[str]:
    """Yield the names in a config."""
    if isinstance(config, dict):
        if isinstance(config.get("name"), str):
            yield config["name"]
        config = [*config.values()]
    if isinstance(config, list):
        for item in config:
            yield from _names(item)
