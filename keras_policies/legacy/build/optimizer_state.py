"""Restores the state of a legacy optimizer in a Keras 3 optimizer, by variable."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import keras
import numpy as np

from keras_policies import keras_internals
from keras_policies.backends.running import backend
from keras_policies.legacy.base.model import (
    LegacyOptimizerState,
    LegacySlot,
    LegacyWeight,
)
from keras_policies.legacy.build.targets import Pairs
from keras_policies.legacy.build.values import fits, value_for
from keras_policies.legacy.guards import limits
from keras_policies.loss_scale_optimizer import LossScaleOptimizer


def restore(model: keras.Model, state: LegacyOptimizerState, pairs: Pairs) -> list[str]:
    """Restore the model's optimizer, or else return the reasons why it starts anew."""
    optimizer, trainable = model.optimizer, model.trainable_variables
    optimizer.build(trainable)
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if state.iterations is None:
        return ["the file holds none, so it starts anew, as an untrained one does"]
    if state.iterations == 0 and not state.slots:
        return []  # it was never trained
    slots, problems = _slot_values(inner, state.slots, pairs, trainable)
    count = state.iterations
    if type(count) is not int or not 0 <= count <= limits.ITERATIONS:
        expected = f"expected 0 to {limits.ITERATIONS}"
        problems.append(f"it has made {count} iterations, {expected}")
    if problems:
        return problems
    for slot, value in slots:
        slot.assign(value_for(slot, value))
    steps = np.asarray(state.iterations, inner.iterations.dtype)
    inner.iterations.assign(backend.place(steps))
    if isinstance(inner, keras.optimizers.Nadam):
        product = _nadam_product(inner.beta_1, state, state.iterations)
        keras_internals.nadam_product(inner).assign(product)
    return []


def held(state: LegacyOptimizerState) -> LegacyOptimizerState:
    """Return a state whose slots are read, with checksums."""

    def read(slot: LegacySlot) -> LegacySlot:
        array = slot.value.read()
        value = dataclasses.replace(slot.value, read=lambda: array)
        return dataclasses.replace(slot, value=value)

    return dataclasses.replace(state, slots=tuple(map(read, state.slots)))


def restore_loss_scale(own: LossScaleOptimizer, state: LegacyOptimizerState) -> None:
    """Give a LossScaleOptimizer the scale that the file's optimizer had reached."""
    if state.loss_scale is not None:
        vars(own)["dynamic_scale"].assign(state.loss_scale)
    if state.good_steps is not None:
        own.step_counter.assign(state.good_steps)


def _slot_values(
    optimizer: keras.optimizers.Optimizer,
    slots: Iterable[LegacySlot],
    pairs: Pairs,
    trainable: Sequence[keras.Variable],
) -> tuple[Pairs, list[str]]:
    """Return the slots of an optimizer with their values, and all that does not fit."""
    names = keras_internals.slot_names(optimizer)
    if not names:
        return [], [f"its class, {type(optimizer).__name__}, is not known"]
    slots_of = {name: keras_internals.slots(optimizer, name) for name in names}
    found, problems = {}, []
    for legacy, variable in _with_variables(slots, pairs, trainable):
        if legacy.name not in slots_of:
            problems.append(f"there is no slot {legacy.name!r} in Keras 3")
            continue
        slot = slots_of[legacy.name].get(id(variable))
        if slot is None:
            continue  # a momentum of 0 needs no slot
        if not fits(slot, legacy.value):
            problems.append(
                f"the slot {legacy.name!r} of {variable.path} has the shape "
                f"{legacy.value.shape} of {legacy.value.dtype}, expected "
                f"{tuple(slot.shape)} of {slot.dtype}"
            )
        found[id(slot)] = slot, legacy.value
    every = (own.get(id(v)) for own in slots_of.values() for v in trainable)
    missing = {id(slot): slot for slot in every if slot is not None}
    absent = (slot.path for key, slot in missing.items() if key not in found)
    problems += [f"the file has no value for {path}" for path in absent]
    return list(found.values()), problems


def _with_variables(
    slots: Iterable[LegacySlot], pairs: Pairs, trainable: Sequence[keras.Variable]
) -> Iterator[tuple[LegacySlot, keras.Variable]]:
    """Yield `(slot, variable)` for the slots of variables that are still trained."""
    by_weight = {_key(weight): variable for variable, weight in pairs}
    by_number, trained = dict(enumerate(trainable)), set(map(id, trainable))
    for slot in slots:
        if isinstance(slot.variable, int):
            variable = by_number.get(slot.variable)
        else:
            variable = by_weight.get(_key(slot.variable))
        if variable is not None and id(variable) in trained:
            yield _in_shape(slot, tuple(variable.shape)), variable


def _key(weight: LegacyWeight) -> object:
    """Return what tells a weight from others, even if it has another path."""
    return id(weight) if weight.number is None else (weight.number,)


def _in_shape(slot: LegacySlot, shape: tuple[int, ...]) -> LegacySlot:
    """Return a slot in the shape that its variable has now."""
    if isinstance(slot.variable, int) or slot.variable.shape != slot.value.shape:
        return slot
    return dataclasses.replace(slot, value=dataclasses.replace(slot.value, shape=shape))


def _nadam_product(beta_1: float, state: LegacyOptimizerState, steps: int) -> float:
    """Return the product of momenta that Nadam has reached.

    Files of Keras 2.3 and of TensorFlow up to 2.10 record it; for others it is computed
    by the formula (Dozat, 2016, and keras/src/optimizers/nadam.py).
    """
    if state.momenta is not None:
        return state.momenta
    powers = 0.96 ** np.arange(1, steps + 1)
    return float(np.prod(beta_1 * (1 - 0.5 * powers)))
