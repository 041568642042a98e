"""What the names in an HDF5 file say about which weight may be which variable."""

import collections
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import keras

from keras_policies.legacy.assembly.own_classes import is_stock
from keras_policies.legacy.assembly.targets import fits, is_graph
from keras_policies.legacy.assembly.weight_orders import Part
from keras_policies.legacy.base.configs import dicts, layer_name, snake_case
from keras_policies.legacy.base.weights import LegacyWeight
from keras_policies.legacy.guards import limits

# Names in tf.keras -> names in Keras 3, of DepthwiseConv1D and 2D.
RENAMED = {"depthwise_kernel": "kernel"}
# How a Bidirectional begins the names of its copies of a layer.
COPIES = "forward_", "backward_"
COUNTED = re.compile(r"(.*?)(?:_(\d+))?")  # kind and number
# Layers that give their own name to the weights of the layer in them.
WRAPPERS = keras.layers.TimeDistributed, keras.layers.SpectralNormalization
# The layer of a user's class that made others, none for a program; and their kind.
Group: TypeAlias = tuple[tuple[Part, ...], str]
Counted: TypeAlias = tuple[int, int, bool]  # number, id, and whether that is sure


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
    scopes = [weight.name.split("/")[:-1][: limits.SCOPES] for weight in weights]
    named = _named(part, scopes, trusts_all)
    owners = [
        [named[name] for name in _joined(each) if name in named] for each in scopes
    ]
    around, variable_names = dict[int, set[int]](), set[str]()
    for parts in part.inside():
        for variable in parts[-1].own:
            around[id(variable)] = {id(each) for each in parts}
            variable_names.add(variable.name)

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


def _named(
    part: Part, scopes: Sequence[Sequence[str]], trusts_all: bool
) -> Mapping[str, set[int]]:
    """Return the ids of the parts that a name in the file may stand for."""
    names = [each.get("name") for each in dicts(part.config)]
    given = {layer_name(name) for name in names if isinstance(name, str)}
    given |= {start + name for start in COPIES for name in given}
    named = collections.defaultdict[str, set[int]](set)
    counted = collections.defaultdict[Group, list[Counted]](list)
    for *outer, last in part.inside():
        around = outer[-1].layer if outer else None
        is_inner = isinstance(around, WRAPPERS)
        is_copy = isinstance(around, keras.layers.Bidirectional) and outer[-1].config
        if last.config or is_copy or not is_automatic(last.layer):
            named[last.layer.name].add(id(last))
        elif is_graph(last.layer) or not is_inner:
            makers = _makers(outer)
            kind, number = _counted(last.layer.name)
            # Code makes the layers of a graph in one order, too.
            is_sure = bool(makers) or part.config is None
            is_sure &= not any(_has_build(each.layer) for each in makers)
            counted[makers[-1:], kind].append((number, id(last), is_sure))
    for name in [*named]:  # a layer that is made in code may have the same name
        kind = _counted(name)[0]
        groups = (counted[key] for key in counted if key[1] == kind)
        named[name] |= {layer for group in groups for _, layer, _ in group}
    for (makers, kind), layers in counted.items():
        owners = {id(each) for each in makers}
        inside = [each for each in scopes if any(owners & named[name] for name in each)]
        if not inside and owners <= {id(part)}:  # a scope may leave the layer out
            inside = [*scopes]
        found = {
            (number, scope)
            for each in inside
            for scope in each
            for prefix, number in [_counted(scope)]
            if prefix == kind and scope not in given
        }
        if len(found) != len(layers):
            continue
        pairs = [*zip(sorted(found), sorted(layers), strict=True)]
        is_alike = len({old - new for (old, _), (new, *_) in pairs}) == 1
        is_sure = trusts_all or (is_alike and all(sure for *_, sure in layers))
        is_sure &= len({number for number, *_ in layers}) == len(layers)
        for (_, name), (_, layer, _) in pairs:
            named[name] |= {layer} if is_sure else {each for _, each, _ in layers}
    for name in {name for each in scopes for name in each} - {*named}:
        # A graph that had a `z_mean` before called the next one `z_mean_1`.
        base = re.sub(r"_\d+$", "", name)
        if base in named:
            named[name] |= named[base]
    return named


def _makers(outer: Sequence[Part]) -> tuple[Part, ...]:
    """Return the layers of a user's classes that made a layer, the nearest first."""
    within = itertools.takewhile(lambda each: not is_graph(each.layer), outer[::-1])
    return tuple(each for each in within if not is_stock(each.layer))


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
