"""Restores the state of a legacy optimizer in a Keras 3 optimizer, by variable."""

import collections
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
    """Restore the model's optimizer; return what starts anew, and why."""
    optimizer, trainable = model.optimizer, model.trainable_variables
    optimizer.build(trainable)
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if state.iterations is None:
        return ["the file holds none, so it starts anew, as an untrained one does"]
    if state.iterations == 0 and not state.slots:
        return []  # it was never trained
    slots, problems, untrained = _slot_values(inner, state.slots, pairs, trainable)
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
    return untrained


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
    slots: Sequence[LegacySlot],
    pairs: Pairs,
    trainable: Sequence[keras.Variable],
) -> tuple[Pairs, list[str], list[str]]:
    """Return the slots with their values, what does not fit, and what has no slots.

    Optimizers up to 2.10 made none for a variable that never had a gradient.
    """
    names = keras_internals.slot_names(optimizer)
    if not names:
        return [], [f"its class, {type(optimizer).__name__}, is not known"], []
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
    untrained = []
    is_named = any(not isinstance(slot.variable, int) for slot in slots)
    for variable in trainable:
        own = [each[id(variable)] for each in slots_of.values() if id(variable) in each]
        absent = [slot for slot in own if id(slot) not in found]
        if absent and len(absent) == len(own) and is_named:
            untrained.append(f"the file has none of {variable.path}: it starts anew")
        else:
            problems += [f"the file has no value for {slot.path}" for slot in absent]
    return list(found.values()), problems, untrained


def _with_variables(
    slots: Iterable[LegacySlot], pairs: Pairs, trainable: Sequence[keras.Variable]
) -> Iterator[tuple[LegacySlot, keras.Variable]]:
    """Yield `(slot, variable)` for the slots of variables that are still trained."""
    by_weight = collections.defaultdict(list)
    for variable, weight in pairs:  # a shared one may be that of several
        by_weight[_key(weight)].append(variable)
    trained = set(map(id, trainable))
    for slot in slots:
        if isinstance(slot.variable, int):
            variables = trainable[slot.variable :][:1]
        else:
            variables = by_weight[_key(slot.variable)]
        for variable in variables:
            if id(variable) in trained:
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
