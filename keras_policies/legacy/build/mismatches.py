"""Says in what the weights of a legacy file differ from the variables of a model."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras

from keras_policies.legacy.base.model import LegacyWeight
from keras_policies.legacy.build.targets import Pairs, Target
from keras_policies.legacy.build.values import fits


def misfits(name: str, pairs: Pairs) -> list[str]:
    """Return a sentence for each weight of a layer that its variable cannot take."""
    return [
        f"{name!r}: {variable.path} has the shape {tuple(variable.shape)}, the file's "
        f"{weight.name or weight.path} has {weight.shape}"
        + ("" if tuple(variable.shape) != weight.shape else f" of {weight.dtype}")
        for variable, weight in pairs
        if not fits(variable, weight)
    ]


def difference(
    name: str, held: Iterable[Target], weights: Iterable[LegacyWeight]
) -> str:
    """Return the weights of a layer and those that the file holds for it."""
    has = ", ".join(f"{item.name} {tuple(item.variable.shape)}" for item in held)
    holds = ", ".join(map(str, weights))
    return (
        f"{name!r} has the weights [{has or 'none'}], the file holds "
        f"[{holds or 'none'}]"
    )


def first_difference(
    held: Mapping[str, Sequence[keras.Variable]],
    stored: Mapping[str, Sequence[LegacyWeight]],
) -> str:
    """Return the numbers of layers, and the first layers with other shapes.

    Args:
        held: the variables of each layer of a model that has some.
        stored: the weights of each layer in the file that has some.
    """
    name, variables, in_file, weights = next(
        (*own, *other)
        for own, other in itertools.zip_longest(
            held.items(), stored.items(), fillvalue=("none", ())
        )
        if sorted(_shapes(own[1])) != sorted(_shapes(other[1]))
    )
    return (
        f"the model has {len(held)} layers with weights, the file {len(stored)}, so "
        f"none was loaded. The first that differ: {name!r} with {_shapes(variables)}, "
        f"in the file {in_file!r} with {_shapes(weights)}."
    )


def _shapes(weights: Iterable[Any]) -> list[tuple[int, ...]]:
    return [tuple(weight.shape) for weight in weights]
