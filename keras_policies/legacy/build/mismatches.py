"""Says how the weights in a legacy file differ from the variables of a model."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import LegacyWeight
from keras_policies.legacy.build.targets import Pairs, Target
from keras_policies.legacy.build.values import fits


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
    name, variables, in_file, weights = next(
        (*own, *other)
        for own, other in itertools.zip_longest(
            held.items(), stored.items(), fillvalue=("none", ())
        )
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
