"""Matches the variables of a layer with its weights in a file, or says what differs.

SavedModel and `.keras` files record the attributes that lead to a variable, and these
decide. HDF5 files record names: they are compared whole, then by their last three, two
and one parts, where equal endings are counted. Position alone never decides.
"""

import collections
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras

from keras_policies.legacy.base.configs import layer_name
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import LegacyWeight
from keras_policies.legacy.build.targets import Pairs, Target
from keras_policies.legacy.build.values import fits

NAME_PARTS = (3, 2, 1)
# Names in tf.keras -> names in Keras 3, of DepthwiseConv1D and 2D.
RENAMED = {"depthwise_kernel": "kernel"}


def match(held: Sequence[Target], weights: Sequence[LegacyWeight]) -> Pairs | None:
    """Return the variables of a layer with their weights, or None if they differ."""
    if len(held) != len(weights):
        return None
    return next(_complete(held, weights), None)


def match_with_added(
    held: Sequence[Target], weights: Sequence[LegacyWeight]
) -> Pairs | None:
    """Return the same for a layer to which `add_weight` has given more weights.

    These must be told from its own by their shapes: a `.keras` file has no names.
    """
    found = next(_complete(held, weights), [])
    shapes = {weight.shape for _, weight in found}
    is_told = all(weight.shape not in shapes for weight in without(found, weights))
    return found if found and is_told else None


def match_objects(
    held: Sequence[Target], weights: Sequence[LegacyWeight]
) -> Pairs | None:
    """Return the same for a model among other objects, as metrics and optimizers are.

    The attributes that lead to a variable decide. A layer has to have all its weights.
    """
    found = next(_complete(held, weights, by_path=True), [])
    layers = {_owner(weight) for _, weight in found}
    is_told = all(_owner(weight) not in layers for weight in without(found, weights))
    return found if found and is_told else None


def without(pairs: Pairs, weights: Sequence[LegacyWeight]) -> list[LegacyWeight]:
    """Return the weights that are in no pair."""
    paired = {id(weight) for _, weight in pairs}
    return [weight for weight in weights if id(weight) not in paired]


def _owner(weight: LegacyWeight) -> str:
    return weight.path.rpartition("/")[0]


def _complete(
    held: Sequence[Target], weights: Sequence[LegacyWeight], by_path: bool = False
) -> Iterator[Pairs]:
    """Yield the pairs in which each variable has a weight, the surest first."""
    for variables, wanted in itertools.islice(_keys(held, weights), by_path or None):
        found = [
            (variables[key], weight)
            for key, weight in zip(wanted, weights, strict=True)
            if key in variables
        ]
        if len(found) == len({id(variable) for variable, _ in found}) == len(held):
            yield found


def _keys(
    held: Sequence[Target], weights: Sequence[LegacyWeight]
) -> Iterator[tuple[Mapping[str, keras.Variable], list[str]]]:
    """Yield `({key: variable}, [key of each weight])`, the most exact keys first."""
    by_path = {_plain(path): item.variable for item in held for path in item.paths}
    yield by_path, [_plain(weight.path) for weight in weights]
    names = [weight.name or weight.path for weight in weights]
    # `conv1/bn/gamma` of a layer `conv1/bn` is `model/conv1_bn/gamma` in Keras 3.
    by_name = {_whole(item.name.partition("/")[2]): item.variable for item in held}
    yield by_name, [_whole(name) for name in names]
    renamed = [RENAMED.get(name.rpartition("/")[2], name) for name in names]
    for names, parts in [(names, parts) for parts in NAME_PARTS] + [(renamed, 1)]:
        own = _counted_endings((item.name for item in held), parts)
        by_ending = {key: item.variable for key, item in zip(own, held, strict=True)}
        yield by_ending, _counted_endings(names, parts)


def _plain(path: str) -> str:
    """Return a path in which a `/` in the name of a layer looks like any other."""
    return "_".join(part.lstrip("_") for part in path.split("/"))


def _whole(name: str) -> str:
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


def misfits(layer: str, pairs: Pairs) -> list[str]:
    """Return a sentence for each weight that its variable cannot take."""
    return [
        f"{layer!r}: {variable.path} has the shape {tuple(variable.shape)}, the file's "
        f"{weight.name or weight.path} has {weight.shape} of {weight.dtype}"
        for variable, weight in pairs
        if not fits(variable, weight)
    ]


def difference(
    layer: str, held: Sequence[Target] | None, weights: Sequence[LegacyWeight]
) -> str:
    """Return a sentence on a layer whose weights have other names in the file."""
    if held is None:
        return f"{layer!r} is no layer of the model"
    own = ", ".join(f"{item.name} {tuple(item.variable.shape)}" for item in held)
    stored = ", ".join(map(str, weights)) or "none"
    return f"{layer!r} has the weights [{own or 'none'}], the file holds [{stored}]"


def other_layers(
    held: Mapping[str, Sequence[keras.Variable]],
    stored: Mapping[str, Sequence[LegacyWeight]],
) -> LegacyModelError:
    """Return the error for a file with other layers than the model; both by layer."""
    both = itertools.zip_longest(held.items(), stored.items(), fillvalue=("none", ()))
    name, variables, in_file, weights = next(
        (*own, *other)
        for own, other in both
        if sorted(_shapes(own[1])) != sorted(_shapes(other[1]))
    )
    return LegacyModelError(
        f"the model has {len(held)} layers with weights, the file {len(stored)}, so "
        f"none was loaded. The first that differ: {name!r} with {_shapes(variables)}, "
        f"in the file {in_file!r} with {_shapes(weights)}.",
        "Layers are compared by name where the model has all names in the file: call "
        "keras.utils.clear_session() before you build it, so that Keras counts anew.",
    )


def _shapes(weights: Sequence[Any]) -> list[tuple[int, ...]]:
    return [tuple(weight.shape) for weight in weights]
