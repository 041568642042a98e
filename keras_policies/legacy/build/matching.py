"""Matches the variables of one Keras 3 layer with its weights in a legacy file.

Both sides are described by the attributes that lead to a variable and by its name.
SavedModel and `.keras` files record attributes, and these decide. HDF5 files record
names: they are compared whole, then by their last three, two and one parts, where equal
endings are counted. Position alone never decides.
"""

import collections
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

import keras

from keras_policies.legacy.base.model import LegacyWeight
from keras_policies.legacy.base.names import layer_name
from keras_policies.legacy.build.targets import Pairs, Target

NAME_PARTS = (3, 2, 1)
# Names in tf.keras -> names in Keras 3, of DepthwiseConv1D and 2D.
RENAMED = {"depthwise_kernel": "kernel"}


def match(held: Sequence[Target], weights: Sequence[LegacyWeight]) -> Pairs | None:
    """Return the variables of a layer with their weights, or None if they differ.

    Args:
        held: the `Target`s of the layer.
        weights: the weights that the file has for it.
    """
    if len(held) != len(weights):
        return None
    for variables, wanted in _keys(held, weights):
        if all(key in variables for key in wanted):
            found = [variables[key] for key in wanted]
            if len({id(variable) for variable in found}) == len(held):
                return list(zip(found, weights, strict=True))
    return None


def _keys(
    held: Sequence[Target], weights: Sequence[LegacyWeight]
) -> Iterator[tuple[Mapping[Hashable, keras.Variable], list[Hashable]]]:
    """Yield `({key: variable}, [key of each weight])`, the most exact keys first."""
    yield (
        {_plain(path): item.variable for item in held for path in item.paths},
        [_plain(weight.path) for weight in weights],
    )
    names = [weight.name or weight.path for weight in weights]
    # `conv1/bn/gamma` of a layer `conv1/bn` is `model/conv1_bn/gamma` in Keras 3.
    yield (
        {_whole(item.name.partition("/")[2]): item.variable for item in held},
        [_whole(name) for name in names],
    )
    renamed = [RENAMED.get(name.rpartition("/")[2], name) for name in names]
    for names, parts in [(names, parts) for parts in NAME_PARTS] + [(renamed, 1)]:
        own = _counted_endings((item.name for item in held), parts)
        variables = {key: item.variable for key, item in zip(own, held, strict=True)}
        yield variables, _counted_endings(names, parts)


def _plain(path: str) -> str:
    """Return a path in which a `/` in the name of a layer looks like any other."""
    return "_".join(part.lstrip("_") for part in path.split("/"))


def _whole(name: str) -> str:
    return layer_name(name.partition(":")[0]).lower()


def _counted_endings(names: Iterable[str], parts: int) -> list[Hashable]:
    """Return the last parts of names, each with the number of equal ones before it."""
    seen: collections.Counter[str] = collections.Counter()
    keys: list[Hashable] = []
    for name in names:
        ending = _ending(name, parts)
        keys.append((ending, seen[ending]))
        seen[ending] += 1
    return keys


def _ending(name: str, parts: int) -> str:
    """Return the last parts of a name; unnamed variables all become `variable`."""
    *scopes, last = name.split("/")[-parts:]
    return "/".join([*scopes, re.sub(r"^(variable)_\d+$", r"\1", last.lower())])
