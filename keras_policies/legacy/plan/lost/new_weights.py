"""The weights of a model whose lost layers were replaced, and their slots."""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

from keras_policies.legacy.base.model import (
    Array,
    LegacyOptimizerState,
    LegacyWeight,
)
from keras_policies.legacy.plan.lost.steps import Part

ByLayer = dict[str, list[tuple[int, LegacyWeight]]]


def by_layer(part: Part, variables: Mapping[int, LegacyWeight]) -> ByLayer:
    """Return the weights of each layer of a model, with their numbers."""
    found: ByLayer = {}
    for path, number, shape in part.weights:
        layer, *rest = path
        weight = dataclasses.replace(variables[number], path="/".join(rest))
        if shape is not None:
            weight = _reshaped(weight, shape)
        found.setdefault(layer, []).append((number, weight))
    return found


def _reshaped(weight: LegacyWeight, shape: tuple[int, ...]) -> LegacyWeight:
    if weight.shape == shape:
        return weight

    def read() -> Array:
        return np.reshape(weight.read(), shape)

    return dataclasses.replace(weight, shape=shape, read=read)


def with_slots(
    state: LegacyOptimizerState,
    changed: Iterable[tuple[int, LegacyWeight]],
    variables: Mapping[int, LegacyWeight],
) -> LegacyOptimizerState:
    """Return the state of an optimizer, its slots those of the changed weights."""
    renewed = {id(variables[number]): weight for number, weight in changed}
    slots = []
    for slot in state.slots:
        weight = renewed.get(id(slot.variable))
        if weight is not None:
            value = _reshaped(slot.value, weight.shape)
            slot = dataclasses.replace(slot, variable=weight, value=value)
        slots.append(slot)
    return dataclasses.replace(state, slots=tuple(slots))
