"""Compiles a model as it was in tf.keras, with the state of its optimizer."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np

from keras_policies import keras_internals
from keras_policies.backends.running import backend
from keras_policies.legacy.base import remedies, trees
from keras_policies.legacy.base.errors import LimitError
from keras_policies.legacy.base.model import (
    LegacyModel,
    LegacyOptimizerState,
    LegacySlot,
    LegacyWeight,
)
from keras_policies.legacy.build.targets import Pairs, fits, value_for
from keras_policies.legacy.guards import limits
from keras_policies.legacy.plan import graph, training
from keras_policies.legacy.plan.plan import Plan
from keras_policies.loss_scale_optimizer import LossScaleOptimizer

KEEPS_TRAINING = 3, 16  # the first Keras that obeys `training` in a graph
OVERRIDING = {
    False: "when it trains (set trainable=False instead)",
    True: "when it predicts (call the model with training=True instead)",
}


def compile_model(model: keras.Model, plan: Plan, pairs: Pairs) -> list[str]:
    """Compile the model as it was; return what could not be restored, with reasons."""
    fitting, made = plan.training, _Made()
    if fitting is None:
        return []
    outputs = getattr(model, "output_names", [])  # other than Functional: one output
    losses = _for_every_output(made.objects("losses", fitting.losses), outputs)
    has_lost_a_loss = bool(made.left_out)
    optimizer = made.objects("optimizers", fitting.optimizer)
    if optimizer is not None and plan.loss_scale is not None:
        optimizer = LossScaleOptimizer(optimizer, plan.loss_scale)
    metrics = made.metrics(fitting.metrics, outputs)
    weighted_metrics = made.metrics(fitting.weighted_metrics, outputs)
    left_out = [*made.left_out, *overridden(plan.legacy, False)]
    if has_lost_a_loss:  # or it would silently learn nothing, or something else
        left_out.append("so the model is not compiled, as it lacks a loss")
    if optimizer is None or has_lost_a_loss:
        return left_out
    model.compile(
        optimizer=optimizer,
        loss=losses,
        loss_weights=fitting.loss_weights if losses is not None else None,
        metrics=metrics,
        weighted_metrics=weighted_metrics,
        auto_scale_loss=fitting.loss_scale is not None,
    )
    if plan.loss_scale is None and isinstance(model.optimizer, LossScaleOptimizer):
        # Stock Keras wraps the optimizer of a saved model again only if the global
        # policy is mixed_float16, and would lose the state of a wrapped one.
        model.optimizer.saved_as_inner = True
    problems = restore(model, plan.legacy.optimizer, pairs)
    if plan.loss_scale is not None:
        restore_loss_scale(model.optimizer, plan.legacy.optimizer)
    return [*left_out, *(f"the optimizer's state: {problem}" for problem in problems)]


class _Made:
    """Makes objects from configs; `left_out` lists the ones that could not be made."""

    def __init__(self) -> None:
        self.left_out: list[str] = []

    def objects(self, kind: str, nest: Any) -> Any:
        """Return a nest of configs as one of objects, None where one was left out."""
        return trees.mapped(partial(self._object, kind), nest, training.is_config)

    def _object(self, kind: str, config: Any) -> Any:
        unknown = training.unknown(kind, config)
        if unknown is not None:
            self.left_out.append(
                f"{kind}: {unknown!r}, pass {remedies.custom_object(unknown)}"
            )
            return None
        if isinstance(config, str):
            return keras.saving.get_registered_object(config) or config
        try:
            return keras.saving.deserialize_keras_object(config)
        except LimitError:
            raise
        except Exception as error:  # Keras 3 may not take the arguments any more
            line = f"{type(error).__name__}: {error}".splitlines()[0]
            reason = line[: limits.TOLD_REASON]
            name = config.get("class_name")
            self.left_out.append(f"{kind}: {name!r} ({reason.rstrip(': ')})")
            return None

    def metrics(self, configs: Any, output_names: list[str]) -> Any:
        """Return a nest of metrics without those left out; None if there are none."""
        named = training.without_output_names(configs, output_names)
        return _without_none(self.objects("metrics", named)) or None


def _without_none(metrics: Any) -> Any:
    if isinstance(metrics, dict):
        return {key: _without_none(item) for key, item in metrics.items()}
    if isinstance(metrics, list | tuple):
        return [_without_none(item) for item in metrics if item is not None]
    return metrics


def _for_every_output(losses: Any, output_names: list[str]) -> Any:
    """Return losses by output, with None for outputs that have none."""
    if isinstance(losses, dict) and set(losses) < set(output_names):
        return {name: losses.get(name) for name in output_names}
    return losses


def overridden(legacy: LegacyModel, training: bool) -> list[str]:
    """Return a note on layers whose `training` in the graph Keras will not obey.

    Those are called with `training=True`, or with `training=False`, as asked.
    """
    if tuple(map(int, keras.__version__.split(".")[:2])) >= KEEPS_TRAINING:
        return []
    fixed = ", ".join(map(repr, graph.fixed_training(legacy.config, training)))
    note = (
        f"training={training} in the calls of {fixed}, which Keras 3 overrides, up to "
        f"3.15, {OVERRIDING[training]}"
    )
    return [note] if fixed else []


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
