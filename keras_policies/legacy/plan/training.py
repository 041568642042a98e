"""Converts a legacy `training_config` into the arguments of `Model.compile`."""

import dataclasses
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias

from keras_policies import keras_names
from keras_policies.annotations import Config
from keras_policies.legacy.base import trees
from keras_policies.legacy.base.configs import policy_name
from keras_policies.legacy.plan import classes, objectives, policies
from keras_policies.legacy.plan.objectives import keras_objective
from keras_policies.loss_scale import DynamicLossScale, LossScale

# Names that compile turns into a metric by the loss and the shape of the output.
CHOSEN_BY_COMPILE = "accuracy", "acc", "crossentropy", "ce"
Nest: TypeAlias = trees.Tree  # of configs, names and None


@dataclasses.dataclass(frozen=True)
class Training:
    """The arguments of `Model.compile`, with configs of Keras 3 in place of objects."""

    optimizer: Config  # the inner one
    loss_scale: LossScale | None  # of a LossScaleOptimizer around it
    is_experimental: bool  # then a policy may have brought the loss scale
    losses: Nest
    loss_weights: Any
    metrics: Nest
    weighted_metrics: Nest

    def explicit_loss_scale(self, dtypes: Iterable[Any]) -> LossScale | None:
        """Return the loss scale, or None if one of the policies, as written, has it."""
        is_brought = self.is_experimental and any(
            policies.loss_scale_of(dtype) == self.loss_scale
            for dtype in dtypes
            if policy_name(dtype) is not None
        )
        return None if is_brought else self.loss_scale


def training_of(written: Config, is_optimizer_wrapped: bool = False) -> Training:
    """Return the `Training`, or raise ValueError if its loss scale is no loss scale."""
    optimizer = written.get("optimizer_config") or {}
    if isinstance(optimizer, str):
        optimizer = {"class_name": optimizer, "config": {}}
    inner, loss_scale, is_experimental = objectives.unwrapped(optimizer)
    if is_optimizer_wrapped:
        loss_scale = DynamicLossScale()
    metrics, weighted = (
        trees.mapped(
            partial(keras_objective, "keras.metrics"),
            objectives.without_outer_list(nest),
            is_config,
        )
        for nest in (written.get("metrics"), written.get("weighted_metrics"))
    )
    return Training(
        optimizer=objectives.keras_optimizer(inner),
        loss_scale=loss_scale,
        is_experimental=is_experimental,
        losses=trees.mapped(
            partial(keras_objective, "keras.losses"), written.get("loss"), is_config
        ),
        loss_weights=written.get("loss_weights"),
        metrics=metrics,
        weighted_metrics=weighted,
    )


def is_config(nest: Nest) -> bool:
    """Return whether a nest is the config of one object."""
    return isinstance(nest, dict) and "class_name" in nest


def unknown(kind: str, value: str | Config) -> str | None:
    """Return the name of an object that neither Keras nor the user knows, or None.

    `kind` is `"losses"`, `"metrics"` or `"optimizers"`.
    """
    if not isinstance(value, str):
        name, module = value["class_name"], value["module"]
        return None if module is None or classes.is_in(module, name) else name
    if keras_names.registered(value) is not None or (
        kind == "metrics" and value in CHOSEN_BY_COMPILE
    ):
        return None
    return None if objectives.is_known(kind, value) else value


def missing(training: Training | None) -> list[str]:
    """Return the names of losses and metrics that `custom_objects` has to give."""
    if training is None:
        return []

    def names(kind: str, *nests: Nest) -> set[str | None]:
        leaves = trees.leaves(nests, is_config)
        return {unknown(kind, leaf) for leaf in leaves if leaf is not None}

    unknown_names = names("losses", training.losses)
    unknown_names |= names("metrics", training.metrics, training.weighted_metrics)
    return sorted(name for name in unknown_names if name is not None)


def without_output_names(metrics: Nest, output_names: Sequence[str]) -> Nest:
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


def _unprefixed(metric: Nest, output_name: str) -> Nest:
    if isinstance(metric, list | tuple):
        return [_unprefixed(item, output_name) for item in metric]
    config = metric["config"] if isinstance(metric, dict) else {}
    if not isinstance(config.get("name"), str):
        return metric
    name = config["name"].removeprefix(f"{output_name}_")
    return {**metric, "config": {**config, "name": name}}
