"""The orders in which tf.keras may have listed the weights of a layer in an HDF5 file.

`weight_names` holds `layer.trainable_weights + layer.non_trainable_weights`, with the
flags at the time of saving. A Layer lists its own weights before those of the layers in
it, a Model after them. A frozen layer adds to the second list: as a Layer, its own
weights, then `variables` of each child in turn; as a Model, all that its layers train,
then the others. Sources: keras/engine/base_layer.py and training.py of 2.15 (network.py
in 2.0), saving/hdf5_format.py, `_legacy_weights`; the same in 2.0, 2.4, 2.9 and 2.15.

A config records the flags of a layer and of those it lists, not those of the parts that
a class makes in code. Both values of such a flag are possible.
"""

import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Config
from keras_policies.legacy.assembly.targets import is_graph
from keras_policies.legacy.base import configs
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.guards import budget, limits

# Class -> the part whose config it holds. The layers in the config of a Bidirectional
# are not those that it trains, so their flags do not count.
RECORDED_PARTS = {
    **{"RNN": "cell", "StackedRNNCells": "cells"},
    **{"SpectralNormalization": "layer", "TimeDistributed": "layer"},
}
ATTRIBUTES = (
    "Build the model in code, and pass load_weights(..., frozen=[...]) with the names "
    "of the layers that were frozen, or [] for none; or save it in tf.keras as a "
    "SavedModel, a .keras file or a checkpoint (save_format='tf')."
)
Variables: TypeAlias = tuple[keras.Variable, ...]
# Pairs of the position of a weight in the list and the id of its variable.
Assignment: TypeAlias = tuple[tuple[int, int], ...]
# The next free positions among trainable and other weights, and the assignment so far.
Way: TypeAlias = tuple[int, int, Assignment]


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """A layer with weights, and the parts of it that have some."""

    layer: keras.Layer
    config: Config | None  # as written; None if the file has none
    trainable: bool | None  # None if unknown
    trained: Variables  # its own ones
    others: Variables
    # The layers in it in the order of tracking, or both orders that it may have been.
    orders: tuple[tuple["Part", ...], ...]
    is_model: bool

    @property
    def own(self) -> Variables:
        """Its own weights."""
        return *self.trained, *self.others

    @functools.cached_property
    def size(self) -> int:
        """int, the number of all weights in it."""
        return len(self.own) + sum(part.size for part in self.orders[0])

    @functools.cached_property
    def counts(self) -> tuple[int, int]:
        """The least and the largest number of trainable weights, if not frozen."""
        least = most = len(self.trained)
        for part in self.orders[0]:
            least += part.counts[0] if part.trainable else 0
            most += 0 if part.trainable is False else part.counts[1]
        return least, most

    def inside(self, *around: "Part") -> Iterator[tuple["Part", ...]]:
        """Yield each part with those around it, the outermost first."""
        yield (*around, self)
        for part in self.orders[0]:
            yield from part.inside(*around, self)


class Parts:
    """Makes the `Part` of a layer; a layer in two places is part of the first one.

    Args:
        free: the ids of the variables in the list.
        by_code: whether flags that the file does not have are those of the layers.
        frozen: the ids of all layers that were frozen, if that is known.
    """

    def __init__(
        self,
        free: Iterable[int],
        *,
        by_code: bool = False,
        frozen: Collection[int] | None = None,
    ) -> None:
        self.free, self.by_code, self.frozen = set(free), by_code, frozen
        self._seen = set[int]()

    def part(self, layer: keras.Layer, config: Config | None) -> Part:
        """Return the `Part` of a layer that is built, with its config as written."""
        is_model, listed = isinstance(layer, keras.Model), [layer]
        if config and is_graph(layer) and not configs.is_graph(config):
            # One layer of tf.keras that is several here, such as LocallyConnected1D.
            is_model, listed = False, keras_internals.sublayers(layer)
        self._seen.update(map(id, listed))
        own = None if is_model else self._own(listed)
        written, orders = _children(layer, config)
        parts = dict[int, Part]()
        for child in orders[0]:
            if id(child) not in self._seen:
                part = self.part(child, written.get(id(child)))
                if part.size:
                    parts[id(child)] = part
        in_order = (
            tuple(parts[id(child)] for child in order if id(child) in parts)
            for order in orders
        )
        trained, others = own or self._own(listed)
        inner = (config or {}).get("config")
        flag = inner.get("trainable") if isinstance(inner, dict) else None
        if self.frozen is not None:
            flag = id(layer) not in self.frozen
        return Part(
            layer=layer,
            config=config,
            trainable=layer.trainable if self.by_code and flag is None else flag,
            trained=trained,
            others=others,
            orders=tuple(dict.fromkeys(in_order)),
            is_model=is_model,
        )

    def _own(self, layers: Sequence[keras.Layer]) -> tuple[Variables, Variables]:
        """Take the variables of layers themselves; several may lead to the same one."""
        lists = zip(*map(keras_internals.own_variables, layers), strict=True)
        trained, others = (
            tuple(item for item in itertools.chain(*each) if id(item) in self.free)
            for each in lists
        )
        self.free -= {id(item) for item in (*trained, *others)}
        return trained, others


def _children(
    layer: keras.Layer, config: Config | None
) -> tuple[Mapping[int, Config], Sequence[Sequence[keras.Layer]]]:
    """Return the configs of the layers in a layer, by id, and the possible orders."""
    tracked = _with_weights(layer)
    config = config or {}
    part = RECORDED_PARTS.get(configs.without_package(str(config.get("class_name"))))
    if part:
        recorded = (config.get("config") or {}).get(part)
        recorded = recorded if isinstance(recorded, list) else [recorded]
        pairs = zip(tracked, recorded, strict=False)
        return {id(child): each for child, each in pairs}, [tracked]
    is_listed = configs.is_graph(config)
    inner = configs.inner_layers(config) if is_listed else configs.passed(config)
    written = configs.by_name(inner)
    counts = collections.Counter(child.name for child in tracked)
    by_id = {
        id(child): written[child.name]
        for child in tracked
        if child.name in written and counts[child.name] == 1
    }
    if not is_listed:
        return by_id, orders(layer)
    places = {name: place for place, name in enumerate(written)}
    return by_id, [sorted(tracked, key=lambda each: places.get(each.name, len(places)))]


def orders(layer: keras.Layer) -> list[list[keras.Layer]]:
    """Return the orders in which tf.keras may have tracked the layers in a layer.

    Those without weights are left out. A graph has an order.

    A list holds its place, with all that it gets later. It may have been empty at
    first, before anything that is before its own layers here; this cannot be seen.
    """
    tracked = _with_weights(layer)
    if is_graph(layer):
        return [tracked]
    attributes = keras_internals.own_attributes(layer)
    places = {id(child): place for place, child in enumerate(tracked)}
    own = {id(value) for _, value in attributes}
    members = ([id(child) for child in _listed(value)] for _, value in attributes)
    lists = (
        [key for key in each if key in places and key not in own] for each in members
    )
    groups = {min(map(places.__getitem__, each)): each for each in lists if each}
    in_lists = {key for each in groups.values() for key in each}
    groups |= {places[key]: [key] for key in places if key not in in_lists}
    found = [list[list[int]]()]
    for _, group in sorted(groups.items()):
        last = len(found[0])
        spots = range(last, -1, -1) if group[0] in in_lists else [last]
        if len(found) * len(spots) > limits.LAYER_ORDERS:
            raise LegacyModelError(
                f"the layers in {layer.name!r} have more possible orders than "
                f"{limits.LAYER_ORDERS}.",
                ATTRIBUTES,
            )
        found = [[*each[:n], group, *each[n:]] for each in found for n in spots]
    chain = itertools.chain.from_iterable
    return [[tracked[places[key]] for key in chain(each)] for each in found]


def _with_weights(layer: keras.Layer) -> list[keras.Layer]:
    return [part for part in keras_internals.parts(layer) if part.weights]


def _listed(value: Any) -> Iterator[keras.Layer]:
    """Yield the layers in an attribute; tf.keras sorts a dict by its keys."""
    if isinstance(value, dict):
        value = [value[key] for key in sorted(value, key=repr)]
    if isinstance(value, list | tuple):
        for item in value:
            yield from _listed(item)
    elif isinstance(value, keras.Layer):
        yield value


class Listings:
    """Finds the assignments that the order of a list of weights allows.

    Args:
        may_be: whether a variable may be the weight at a position in the list.
    """

    def __init__(self, may_be: Callable[[keras.Variable, int], bool]) -> None:
        self._may_be = may_be
        self._split = functools.cache(self._split_at)
        self._in_turn = functools.cache(self._in_turn_at)

    def of_layer(self, part: Part) -> list[Assignment]:
        """Return none, one or two assignments of all weights: two stand for many."""
        return self._split(part, 0) if part.is_model else self._variables(part, 0)

    def _variables(self, part: Part, start: int) -> list[Assignment]:
        """`part.variables`, listed from `start` on."""
        found = list[Assignment]()
        if part.is_model or part.trainable is not True:
            found += self._in_turn(part, start)
        if not part.is_model and part.trainable is not False:
            found += self._split(part, start)
        return _different(found)

    def _split_at(self, part: Part, start: int) -> list[Assignment]:
        """The weights of a part that it trains, if not frozen, then its others."""
        least, most = part.counts
        found, end = list[Assignment](), start + part.size
        for middle in range(start + least, start + most + 1):
            ways = self._unfrozen([(start, middle, ())], part, middle)
            found += [way for *ends, way in ways if ends == [middle, end]]
        return _different(found)

    def _in_turn_at(self, part: Part, start: int) -> list[Assignment]:
        """The weights of a part, its own together and those of each child."""

        def step(ways: list[Way], each: Part) -> list[Way]:
            if each is part:
                return self._own(ways, (), part.own)
            return _appended(ways, each, self._variables)

        return [way for *_, way in _walk([(0, start, ())], part, step)]

    def _unfrozen(self, ways: list[Way], part: Part, middle: int) -> list[Way]:
        """Add a part that is not frozen, to both lists."""

        def step(ways: list[Way], each: Part) -> list[Way]:
            if each is part:
                return self._own(ways, part.trained, part.others, middle)
            frozen = list[Way]()
            if each.trainable is not True:
                listed = self._split if each.is_model else self._in_turn
                frozen = _appended(ways, each, listed)
            if each.trainable is not False:
                frozen += self._unfrozen(ways, each, middle)
            return frozen

        return _walk(ways, part, step)

    def _own(
        self, ways: list[Way], trained: Variables, others: Variables, middle: int = 0
    ) -> list[Way]:
        """Add variables, those to train before the position `middle`."""
        longer = list[Way]()
        for first, second, way in ways:
            end = first + len(trained)
            places = [*enumerate(trained, first), *enumerate(others, second)]
            has_room = not trained or end <= middle
            if has_room and all(self._may_be(each, place) for place, each in places):
                found = tuple((place, id(each)) for place, each in places)
                longer.append((end, second + len(others), way + found))
        return longer


def _walk(
    ways: list[Way], part: Part, step: Callable[[list[Way], Part], list[Way]]
) -> list[Way]:
    """Add a part, by a step for itself and for each in it, in each of the orders."""
    longer = list[Way]()
    for order in part.orders:
        reached = ways
        for each in (*order, part) if part.is_model else (part, *order):
            reached = _distinct(step(reached, each))
        longer += reached
    return _distinct(longer)


def _appended(
    ways: list[Way], part: Part, listed: Callable[[Part, int], list[Assignment]]
) -> list[Way]:
    """Add all weights of a part to the second list."""
    return [
        (first, second + part.size, way + found)
        for first, second, way in ways
        for found in listed(part, second)
    ]


def _distinct(ways: list[Way]) -> list[Way]:
    """Return, for each length of both lists, those that differ, up to two."""
    by_ends = collections.defaultdict[tuple[int, int], list[Assignment]](list)
    for first, second, way in ways:
        budget.work(budget.WAY + budget.COPY * len(way))
        by_ends[first, second].append(way)
    return [(*ends, way) for ends in by_ends for way in _different(by_ends[ends])]


def _different(found: list[Assignment]) -> list[Assignment]:
    if len(found) < 2:
        return found
    return [*{frozenset(way): way for way in found}.values()][:2]
