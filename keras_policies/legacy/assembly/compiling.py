"""Compiles a model as in tf.keras, and restores the state of its optimizer."""

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np

from keras_policies import keras_internals
from keras_policies._common.arguments import unsaved
from keras_policies.backends.running import backend
from keras_policies.legacy.assembly.targets import Pairs, fits, is_graph, value_for
from keras_policies.legacy.base import trees
from keras_policies.legacy.base.errors import LimitError
from keras_policies.legacy.base.model import LegacyOptimizerState, LegacySlot
from keras_policies.legacy.base.outcomes import LeftOut, left_out
from keras_policies.legacy.base.weights import LegacyWeight
from keras_policies.legacy.guards import limits, trust
from keras_policies.legacy.plan import parts, training
from keras_policies.legacy.plan.plan import Plan
from keras_policies.loss_scaling.optimizer import LossScaleOptimizer, instead_of_stock


def compile_model(model: keras.Model, plan: Plan, pairs: Pairs) -> list[LeftOut]:
    """Compile the model; return what could not be restored, with reasons.

    Problems in its training configuration are not errors.
    """
    try:
        return _compile(model, plan, pairs)
    except LimitError:
        raise
    except Exception as error:  # Keras and its optimizers raise any error
        problem = training.unreadable("training_config", error)
        left = "the model is not compiled"
        if model.compiled:
            left = "its optimizer starts anew"
        return [LeftOut(f"{problem}: {left}", "KP601")]


def _compile(model: keras.Model, plan: Plan, pairs: Pairs) -> list[LeftOut]:
    fitting, objectives = plan.training, _Objectives()
    if fitting is None:
        return []
    named = getattr(model, "output_names", [])  # only a Functional has several outputs
    outputs = _told_apart(named)
    losses = objectives.objects("losses", fitting.losses)
    losses = _for_every_output(losses, model, outputs)
    has_lost_a_loss = bool(objectives.not_converted)
    optimizer = objectives.objects("optimizers", fitting.optimizer)
    if optimizer is not None and plan.loss_scale is not None:
        optimizer = LossScaleOptimizer(optimizer, plan.loss_scale)
    tensors = model.outputs if is_graph(model) else ()
    sizes = [each.shape[-1] if each.shape else None for each in tensors]
    release = plan.legacy.release
    meant = training.meanings(fitting.losses, sizes, release)
    metrics, weighted_metrics = (
        objectives.metrics(training.with_classes(each, meant, sizes, release), outputs)
        for each in (fitting.metrics, fitting.weighted_metrics)
    )
    # Without a loss, it would silently learn something else, or nothing.
    is_compiled = optimizer is not None and not has_lost_a_loss
    not_converted = [
        *parts.lost(objectives.not_converted, is_compiled=is_compiled),
        *left_out("KP605", parts.changes(plan.legacy, _tables(model))),
    ]
    if not is_compiled:
        return not_converted
    weights = fitting.loss_weights if losses is not None else None
    weights = _for_every_output(weights, model, outputs, 1.0)
    is_nest = isinstance(losses, list | tuple | dict)
    if isinstance(weights, list | tuple) and not is_nest:
        losses = [losses] * len(weights)  # each output has it
    if len(set(named)) < len(named):  # Keras could not match names with outputs
        losses, weights, metrics, weighted_metrics = (
            [nest.get(name) for name in outputs] if isinstance(nest, dict) else nest
            for nest in (losses, weights, metrics, weighted_metrics)
        )
    compiled = partial(
        model.compile,
        optimizer=optimizer,
        loss=losses,
        loss_weights=weights,
        auto_scale_loss=fitting.loss_scale is not None,
    )
    with instead_of_stock:
        try:
            compiled(metrics=metrics, weighted_metrics=weighted_metrics)
        except (TypeError, ValueError) as error:
            compiled()  # raises again if the metrics are not the reason
            not_converted.append(training.unreadable("metrics", error))
    if plan.loss_scale is None and isinstance(model.optimizer, LossScaleOptimizer):
        # Plain Keras only wraps the optimizer of a saved model if the global policy is
        # mixed_float16; otherwise it would lose the state of a wrapped one.
        model.optimizer.saved_as_inner = True
    problems = restore(model, plan.legacy.optimizer, pairs)
    if plan.loss_scale is not None:
        restore_loss_scale(model.optimizer, plan.legacy.optimizer)
    left = map(parts.of_optimizer, problems)
    return [*not_converted, *left, *parts.without_state(plan)]


class _Objectives:
    """Makes objects from configs; `not_converted` lists those that cannot be made."""

    def __init__(self) -> None:
        self.not_converted: list[str] = []

    def objects(self, kind: str, nest: Any) -> Any:
        """Return a nest of configs as one of objects, with None for those left out."""
        return trees.mapped(
            partial(self._object, kind), nest, is_leaf=training.is_config
        )

    def _object(self, kind: str, config: Any) -> Any:
        unknown = training.unknown(kind, config)
        if unknown is not None:
            self.not_converted.append(parts.unknown_part(kind, unknown))
            return None
        if isinstance(config, str):
            return keras.saving.get_registered_object(config) or config
        try:
            trust.check(config)
            return _saved_whole(keras.saving.deserialize_keras_object(config))
        except LimitError:
            raise
        except Exception as error:  # Keras 3 may not accept the arguments
            line = f"{type(error).__name__}: {error}".splitlines()[0]
            reason, name = line[: limits.TOLD_REASON], config.get("class_name")
            self.not_converted.append(f"{kind}: {name!r} ({reason.rstrip(': ')})")
            return None

    def metrics(self, configs: Any, output_names: list[str]) -> Any:
        """Return a nest of metrics without those left out, or None if none is left."""
        named = _by_own_names(configs, output_names)
        return _without_none(self.objects("metrics", named)) or None


def _saved_whole(thing: Any) -> Any:
    """Return a loss or a metric whose config has all its arguments."""
    if unsaved(thing):
        thing.get_config = partial(_whole_config, thing)
    return thing


def _whole_config(thing: Any) -> dict[str, Any]:
    config = type(thing).get_config(thing)
    return {**config, **unsaved(thing, config)}


def _by_own_names(metrics: Any, output_names: Sequence[str]) -> Any:
    """Return metrics by their own names, which tf.keras prefixed by the output's.

    In tf.keras, each metric in a list of metrics was that of every output.
    """
    if len(output_names) < 2:
        return metrics
    is_list = isinstance(metrics, list | tuple)
    if metrics and is_list and not any(isinstance(m, list | tuple) for m in metrics):
        metrics = [list(metrics) for _ in output_names]
    if isinstance(metrics, dict):
        return {name: _unprefixed(item, name) for name, item in metrics.items()}
    if not isinstance(metrics, list | tuple) or len(metrics) != len(output_names):
        return metrics
    return list(map(_unprefixed, metrics, output_names))


def _unprefixed(metric: Any, output_name: str) -> Any:
    if isinstance(metric, list | tuple):
        return [_unprefixed(item, output_name) for item in metric]
    config = metric["config"] if isinstance(metric, dict) else {}
    if not isinstance(config.get("name"), str):
        return metric
    name = config["name"].removeprefix(f"{output_name}_")
    return {**metric, "config": {**config, "name": name}}


def _without_none(metrics: Any) -> Any:
    if isinstance(metrics, dict):
        return {key: _without_none(item) for key, item in metrics.items()}
    if isinstance(metrics, list | tuple):
        return [_without_none(item) for item in metrics if item is not None]
    return metrics


def _for_every_output(
    values: Any, model: keras.Model, names: list[str], absent: float | None = None
) -> Any:
    """Return losses or their weights for all outputs, with `absent` for missing ones.

    Of a model with a list of outputs, Keras takes the targets of some of them only if
    the losses are in a list, too.
    """
    if not isinstance(values, dict) or not set(values) < set(names):
        return values
    if isinstance(getattr(model, "output", None), dict):
        return {name: values.get(name, absent) for name in names}
    return [values.get(name, absent) for name in names]


def _told_apart(names: Sequence[str]) -> list[str]:
    """Return the names of outputs in tf.keras: `inner`, `inner_1`."""
    counts: collections.Counter[str] = collections.Counter()
    unique = dict[str, None]()
    for name in names:
        numbered = name
        while numbered in unique:
            counts[name] += 1
            numbered = f"{name}_{counts[name]}"
        unique[numbered] = None
    return [*unique]


def _tables(model: keras.Model) -> Iterator[str]:
    """Yield the names of the embeddings that a model trains."""
    for layer in keras_internals.sublayers(model):
        if isinstance(layer, keras.layers.Embedding) and layer.trainable_weights:
            yield layer.name


def restore(model: keras.Model, state: LegacyOptimizerState, pairs: Pairs) -> list[str]:
    """Restore the model's optimizer; return what starts anew, with reasons."""
    optimizer, trainable = model.optimizer, model.trainable_variables
    optimizer.build(trainable)
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if state.iterations is None or (state.iterations == 0 and not state.slots):
        return []  # it was not trained, or `parts` says why there is none
    slots, problems, untrained = _slot_values(inner, state.slots, pairs, trainable)
    count: Any = state.iterations
    if isinstance(count, float) and count.is_integer():
        count = int(count)  # Keras 2.0 counted in float32
    if type(count) is not int or not 0 <= count <= limits.ITERATIONS:
        expected = f"expected 0 to {limits.ITERATIONS}"
        problems.append(f"it has made {count} iterations, {expected}")
    if problems:
        return problems
    for slot, value in slots:
        slot.assign(value_for(slot, value))
    steps = np.asarray(count, inner.iterations.dtype)
    inner.iterations.assign(backend.place(steps))
    if isinstance(inner, keras.optimizers.Nadam):
        product = product_of_momenta(inner.beta_1, state, len(trainable))
        keras_internals.nadam_product(inner).assign(product)
    return untrained


def read_slots(state: LegacyOptimizerState) -> LegacyOptimizerState:
    """Return a state whose slots have been read, which verifies their checksums."""

    def read(slot: LegacySlot) -> LegacySlot:
        array = slot.value.read()
        value = dataclasses.replace(slot.value, read=lambda: array)
        return dataclasses.replace(slot, value=value)

    return dataclasses.replace(state, slots=tuple(map(read, state.slots)))


def restore_loss_scale(
    optimizer: LossScaleOptimizer, state: LegacyOptimizerState
) -> None:
    """Set the scale of a LossScaleOptimizer to that in the file."""
    if state.loss_scale is not None:
        vars(optimizer)["dynamic_scale"].assign(state.loss_scale)
    if state.good_steps is not None:
        optimizer.step_counter.assign(state.good_steps)


def _slot_values(
    optimizer: keras.optimizers.Optimizer,
    slots: Sequence[LegacySlot],
    pairs: Pairs,
    trainable: Sequence[keras.Variable],
) -> tuple[Pairs, list[str], list[str]]:
    """Return slots with their values, problems, and variables without slots.

    Optimizers up to 2.10 made no slots for a variable that never had a gradient.
    """
    names = keras_internals.slot_names(optimizer)
    if not names:
        return [], [f"its class, {type(optimizer).__name__}, is not known"], []
    numbers = {slot.variable for slot in slots if isinstance(slot.variable, int)}
    if numbers and len(numbers) != len(trainable):
        change = f"the model trained {len(numbers)} weights, and now {len(trainable)}"
        return [], [f"{change}: the others were frozen after it was compiled"], []
    slots_of = {name: keras_internals.slots(optimizer, name) for name in names}
    values, problems = {}, []
    for legacy, variable in _with_variables(slots, pairs, trainable):
        if legacy.name not in slots_of:
            problems.append(f"there is no slot {legacy.name!r} in Keras 3")
            continue
        slot = slots_of[legacy.name].get(id(variable))
        if slot is None:
            continue  # such as a momentum of 0
        if not fits(slot, legacy.value):
            problems.append(
                f"the slot {legacy.name!r} of {variable.path} has the shape "
                f"{legacy.value.shape} of {legacy.value.dtype}, expected "
                f"{tuple(slot.shape)} of {slot.dtype}"
            )
        values[id(slot)] = slot, legacy.value
    trained = {*map(id, trainable)}
    slotted = {_key(s.variable) for s in slots if not isinstance(s.variable, int)}
    frozen = [v.path for v, w in pairs if id(v) not in trained and _key(w) in slotted]
    untrained = []
    if frozen:
        untrained.append(f"that of {_first(frozen)}, which are frozen now")
    without, lacking = [], list[str]()
    is_named = any(not isinstance(slot.variable, int) for slot in slots)
    for variable in trainable:
        key = id(variable)
        group = [each[key] for each in slots_of.values() if key in each]
        absent = [slot for slot in group if id(slot) not in values]
        if absent and len(absent) == len(group) and is_named:
            without.append(variable.path)
        else:
            lacking += [slot.path for slot in absent]
    if without:
        untrained.append(f"the file has none of {_first(without)}: it starts anew")
    if lacking:
        problems.append(f"the file has no value for {_first(lacking)}")
    return list(values.values()), problems, untrained


def _first(paths: Sequence[str]) -> str:
    """Return up to two paths, or the first and how many others there are."""
    if len(paths) > 2:
        return f"{paths[0]} and {len(paths) - 1} others"
    return " and ".join(paths)


def _with_variables(
    slots: Iterable[LegacySlot], pairs: Pairs, trainable: Sequence[keras.Variable]
) -> Iterator[tuple[LegacySlot, keras.Variable]]:
    """Yield `(slot, variable)` for the slots of variables that are still trained."""
    by_weight = collections.defaultdict(list)
    for variable, weight in pairs:  # several variables may have a shared weight
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
    """Return a key that identifies a weight, even with another path."""
    return id(weight) if weight.number is None else (weight.number,)


def _in_shape(slot: LegacySlot, shape: tuple[int, ...]) -> LegacySlot:
    """Return a slot in the shape that its variable has in Keras 3."""
    if isinstance(slot.variable, int) or slot.variable.shape != slot.value.shape:
        return slot
    return dataclasses.replace(slot, value=dataclasses.replace(slot.value, shape=shape))


def product_of_momenta(
    beta_1: float, state: LegacyOptimizerState, updates: int
) -> float:
    """Return Nadam's current product of momenta.

    Keras 2.3, TensorFlow up to 2.10 and SavedModels record it. For other files it is
    computed: TensorFlow 2.11 to 2.15 multiplied it for each of the `updates` of a step,
    one for each of n variables, but left out one of them in each of the steps n to
    2n - 1.
    """
    if state.momenta is not None:
        return state.momenta
    steps = np.arange(state.iterations or 0)
    is_left_out = (updates - 1 <= steps) & (steps < 2 * updates - 1)
    momenta = beta_1 * (1 - 0.5 * 0.96 ** (steps + 1))
    return float(np.prod(momenta ** (updates - is_left_out)))
