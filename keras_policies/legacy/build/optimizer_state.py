"""Puts the state of a legacy optimizer into the one of Keras 3, by variable."""

import keras
import numpy as np

from keras_policies import backends, keras_internals
from keras_policies.legacy.build.values import fits, value_for

MAX_STEPS = 2**31  # Keras counts in int32


def _variable_of(slot, variables, trainable):
    """Return the variable of a slot: by its weight, or by its number."""
    if isinstance(slot.variable, int):
        known = slot.variable < len(trainable)
        return trainable[slot.variable] if known else None
    return variables.get(id(slot.variable))


def _targets(optimizer, state, pairs, trainable):
    """Return `([(slot variable, LegacyWeight)], problems)`."""
    names = keras_internals.slot_names(optimizer)
    if not names:
        return [], [f"its class, {type(optimizer).__name__}, is not known"]
    variables = {id(weight): variable for variable, weight in pairs}
    targets, problems = {}, []
    for slot in state.slots:
        variable = _variable_of(slot, variables, trainable)
        if variable is None or not any(variable is item for item in trainable):
            continue  # frozen since: it needs no slot
        if slot.name not in names:
            problems.append(f"there is no slot {slot.name!r} in Keras 3")
            continue
        target = keras_internals.slot(optimizer, slot.name, variable)
        if target is None:
            continue  # a momentum of 0 needs no slot
        if not fits(target, slot.value):
            problems.append(
                f"the slot {slot.name!r} of {variable.path} has the shape "
                f"{slot.value.shape} of {slot.value.dtype}, expected "
                f"{tuple(target.shape)} of {target.dtype}"
            )
        targets[id(target)] = target, slot.value
    slots = [
        keras_internals.slot(optimizer, name, item)
        for name in names
        for item in trainable
    ]
    missing = {id(slot): slot for slot in slots if id(slot) not in targets}
    problems += [
        f"the file has no value for {slot.path}"
        for slot in missing.values()
        if slot is not None
    ]
    return list(targets.values()), problems


def _nadam_product(optimizer, state):
    """Return the product of momenta that Nadam has reached.

    Recorded up to 2.10; else what its formula gives (Dozat, 2016, and
    keras/src/optimizers/nadam.py).
    """
    recorded = state.scalars.get("momentum_cache", state.scalars.get("u_product"))
    if recorded is not None:
        return recorded
    steps = np.arange(1, state.iterations + 1)
    return float(np.prod(optimizer.beta_1 * (1 - 0.5 * 0.96**steps)))


def restore(model, state, pairs):
    """Build the model's optimizer, and give it the state of the file's.

    Args:
        model: `keras.Model`, compiled.
        state: `LegacyOptimizerState`.
        pairs: `[(variable, LegacyWeight), …]` of the model.

    Returns:
        list of str, why the slots were left as new; empty if all came back.
    """
    optimizer, trainable = model.optimizer, model.trainable_variables
    optimizer.build(trainable)
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if state.iterations is None:
        return ["the file holds none, so it starts anew, as an untrained one does"]
    if state.iterations == 0 and not state.slots:
        return []  # it was never trained
    targets, problems = _targets(inner, state, pairs, trainable)
    if type(state.iterations) is not int or not 0 <= state.iterations < MAX_STEPS:
        problems.append(f"it has made {state.iterations} iterations")
    if problems:
        return problems
    for target, value in targets:
        target.assign(value_for(target, value))
    steps = np.asarray(state.iterations, inner.iterations.dtype)
    inner.iterations.assign(backends.place(steps))
    if isinstance(inner, keras.optimizers.Nadam):
        product = _nadam_product(inner, state)
        keras_internals.nadam_product(inner).assign(product)
    return []


def restore_loss_scale(optimizer, state):
    """Give a LossScaleOptimizer the scale that the file's had reached."""
    if state.loss_scale is not None:
        optimizer.dynamic_scale.assign(state.loss_scale)
    if state.good_steps is not None:
        optimizer.step_counter.assign(state.good_steps)
