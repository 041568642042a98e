"""Compiles a model as it was in tf.keras, with the state of its optimizer."""

import collections
from collections.abc import Sequence
from functools import partial
from typing import Any

import keras

from keras_policies.legacy.base import remedies, trees
from keras_policies.legacy.base.errors import LimitError
from keras_policies.legacy.base.model import LegacyModel
from keras_policies.legacy.build import optimizer_state
from keras_policies.legacy.build.targets import Pairs
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
    named = getattr(model, "output_names", [])  # other than Functional: one output
    outputs = _told_apart(named)
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
    weights = fitting.loss_weights if losses is not None else None
    by_output = losses, weights, metrics, weighted_metrics
    if len(set(named)) < len(named):  # names would not tell the outputs apart
        by_output = (*(_by_position(nest, outputs) for nest in by_output),)
    losses, weights, metrics, weighted_metrics = by_output
    model.compile(
        optimizer=optimizer,
        loss=losses,
        loss_weights=weights,
        metrics=metrics,
        weighted_metrics=weighted_metrics,
        auto_scale_loss=fitting.loss_scale is not None,
    )
    if plan.loss_scale is None and isinstance(model.optimizer, LossScaleOptimizer):
        # Stock Keras wraps the optimizer of a saved model again only if the global
        # policy is mixed_float16, and would lose the state of a wrapped one.
        model.optimizer.saved_as_inner = True
    problems = optimizer_state.restore(model, plan.legacy.optimizer, pairs)
    if plan.loss_scale is not None:
        optimizer_state.restore_loss_scale(model.optimizer, plan.legacy.optimizer)
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


def _told_apart(names: Sequence[str]) -> list[str]:
    """Return the names of outputs as tf.keras had them: `inner`, `inner_1`."""
    counts: collections.Counter[str] = collections.Counter()
    found: list[str] = []
    for name in names:
        own = name
        while own in found:
            counts[name] += 1
            own = f"{name}_{counts[name]}"
        found.append(own)
    return found


def _by_position(nest: Any, output_names: Sequence[str]) -> Any:
    """Return what is given for each output by its name as a list."""
    if not isinstance(nest, dict):
        return nest
    return [nest.get(name) for name in output_names]


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
