"""Converts a legacy `training_config` into the arguments of `Model.compile`.

A loss or metric was written as a function's name, an object, or a wrapper around one.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from keras_policies._common import keras_names
from keras_policies._common.lazy_keras import keras
from keras_policies._common.types import Config
from keras_policies.legacy.base import trees
from keras_policies.legacy.base.configs import (
    keras_function,
    keras_object,
    policy_name,
    snake_case,
    without_package,
)
from keras_policies.legacy.base.errors import UNEXPECTED
from keras_policies.legacy.base.model import Release
from keras_policies.legacy.base.outcomes import LeftOut
from keras_policies.legacy.guards import limits
from keras_policies.legacy.plan import classes, policies
from keras_policies.loss_scaling import loss_scale as loss_scales
from keras_policies.loss_scaling.loss_scale import (
    DynamicLossScale,
    FixedLossScale,
    LossScale,
)

# Wrappers that tf.keras wrote where the user had named a function.
FUNCTION_WRAPPERS = "MeanMetricWrapper", "LossFunctionWrapper", "SumOverBatchSizeMetric"
# The metric class of a function, so that a name such as "accuracy" can be kept.
CLASSES = {
    "kl_divergence": "KLDivergence",
    "kullback_leibler_divergence": "KLDivergence",
    "log_cosh": "LogCoshError",
    "logcosh": "LogCoshError",
}
# Functions that have another name in Keras 3, by which it gets them.
RENAMED_FUNCTIONS = {
    "huber_loss": "huber",
    "kullback_leibler_divergence": "kl_divergence",
    "logcosh": "log_cosh",
}
# Functions whose class has the same words: `binary_accuracy` and `BinaryAccuracy`.
SAME_WORDS = (
    *("accuracy", "binary_accuracy", "categorical_accuracy", "poisson", "hinge"),
    *("sparse_categorical_accuracy", "top_k_categorical_accuracy", "squared_hinge"),
    *("sparse_top_k_categorical_accuracy", "mean_squared_error", "categorical_hinge"),
    *("mean_absolute_error", "mean_absolute_percentage_error", "cosine_similarity"),
    *("mean_squared_logarithmic_error", "binary_crossentropy"),
    *("categorical_crossentropy", "sparse_categorical_crossentropy"),
)
CLASSES |= {name: name.title().replace("_", "") for name in SAME_WORDS}
TOP_K = {name: title for name, title in CLASSES.items() if "top_k_" in name}
LOSS_SCALE_OPTIMIZERS = (
    "LossScaleOptimizer",  # 2.0 to 2.3, and 2.4 and on
    "LossScaleOptimizerV1",  # 2.4 to 2.8, from the experimental API
    "LossScaleOptimizerV3",  # 2.11 and on
)
# Settings of tf.keras optimizers that Keras 3 does not have.
DROPPED = "decay", "is_legacy_optimizer", "jit_compile", "schedule_decay"
# tf.keras trained by the sum of a loss that is not reduced, and showed a mean of it.
REDUCTIONS = {"auto": "sum_over_batch_size", "none": "sum"}
RENAMED = {"lr": "learning_rate"}
SCHEDULES = "keras.optimizers.schedules"
# With `ignore_class`, tf.keras divides the sum of this metric by the number of targets
# that are not ignored, Keras 3 by the number of all targets.
IGNORES, IGNORED = ("metrics", "SparseCategoricalCrossentropy"), "ignore_class"
# Names by which Keras gets a loss or a metric, beside the public ones of its modules,
# and public ones by which it does not.
SHORT = "bce", "mae", "mape", "mse", "msle", "BCE", "MAE", "MAPE", "MSE", "MSLE"
# Functions were written by their `__name__`, which in Keras is none of these names.
ALIASES = {*SHORT, "KLD", "kld", "kullback_leibler_divergence", "huber_loss", "acc"}
BY_NAME = {"losses": (*SHORT, "KLD", "kld"), "metrics": SHORT}
NOT_METRICS = (
    *("huber", "log_cosh"),
    *("binary_focal_crossentropy", "categorical_focal_crossentropy"),
)
NOT_BY_NAME = {"metrics": NOT_METRICS}


def is_known(kind: str, name: str) -> bool:
    """Return whether Keras gets tf.keras's loss, metric or optimizer by a name.

    `kind` is `"losses"`, `"metrics"` or `"optimizers"`.
    """
    if name in classes.NOT_IN_TF_KERAS[f"keras.{kind}"]:
        return False
    if keras_names.can_be_read():
        names = keras_names.names(kind)
        spelled = (key for key in names if keras_names.is_class(f"keras.{kind}", key))
        accepted = {*names, *map(snake_case, spelled), *BY_NAME.get(kind, ())}
        return name in accepted.difference(NOT_BY_NAME.get(kind, ()))
    try:
        getattr(keras, kind).get(name)
    except ValueError:
        return False
    return True


def _function_name(written: Any) -> str | None:
    if isinstance(written, dict) and written.get("class_name") == "function":
        written = written.get("config")
    return written if isinstance(written, str) else None


def keras_objective(module: str, written: Any) -> str | Config:
    """Return the Keras 3 config of a loss or a metric, or the name of its function."""
    named = _function_name(written)
    if isinstance(written, dict) and named in ALIASES:
        return keras_function(named)  # a user's
    is_metric = module == "keras.metrics"
    if named is not None and keras_names.registered(named) is not None:
        return named
    if named is not None and not (is_metric and named in RENAMED_FUNCTIONS):
        return named if is_metric else RENAMED_FUNCTIONS.get(named, named)
    if named is not None:  # Keras would report it by its new name
        written = {"class_name": CLASSES[named], "config": {"name": named}}
    class_name, config = written["class_name"], written.get("config") or {}
    if not isinstance(config, dict):  # a name, in the way of some libraries' losses
        return keras_object(module, class_name, None)
    settings = dict(config)
    wrapped = settings.pop("fn", None)
    function = _function_name(wrapped)
    if class_name in FUNCTION_WRAPPERS and function is not None:
        if isinstance(wrapped, dict) and function in ALIASES:
            return keras_function(function)
        if not is_metric or function not in CLASSES:
            return function
        class_name = CLASSES[function]
    if is_metric and isinstance(settings.get("dtype"), dict):
        settings["dtype"] = policies.variable_dtype(settings["dtype"])
    if is_metric and settings.get(IGNORED, IGNORED) is None:
        del settings[IGNORED]  # which not all metrics take before Keras 3.13
    if not is_metric and settings.get("reduction") in REDUCTIONS:
        settings["reduction"] = REDUCTIONS[settings["reduction"]]
    stock = {"class_name": class_name, "config": settings}
    return classes.object_in(module, stock)


def without_outer_list(written: Any) -> Any:
    """Return metrics without the list that 2.x puts around those of one output."""
    if isinstance(written, str) or is_config(written):
        return [written]
    if isinstance(written, list | tuple) and len(written) == 1:
        (only,) = written
        return only if isinstance(only, list | tuple) else written
    return written


def unwrapped(optimizer: Config) -> tuple[Config, LossScale | None, bool]:
    """Return `(optimizer, loss scale around it or None, is it experimental)`."""
    name, config = optimizer.get("class_name"), optimizer.get("config") or {}
    if without_package(str(name)) not in LOSS_SCALE_OPTIMIZERS:
        return optimizer, None, False
    inner = config.get("inner_optimizer") or config.get("optimizer") or {}
    if "loss_scale" in config:  # 2.0 to 2.3
        return inner, loss_scales.get(config["loss_scale"]), True
    return inner, _loss_scale(config), name == "LossScaleOptimizerV1"


def _loss_scale(config: Config) -> LossScale:
    """Return the loss scale of a LossScaleOptimizer of 2.4 or later."""
    initial: Any = config.get("initial_scale")
    if not config.get("dynamic", True):
        return FixedLossScale(initial)
    rule = DynamicLossScale()
    return DynamicLossScale(
        initial or rule.initial_loss_scale,
        config.get("dynamic_growth_steps") or rule.increment_period,
    )


def keras_optimizer(written: Config) -> Config:
    """Return the Keras 3 config of an optimizer; `decay` becomes a schedule."""
    config = written.get("config") or {}
    settings = {RENAMED.get(k, k): v for k, v in config.items() if k not in DROPPED}
    rate = settings.get("learning_rate")
    # Nadam called the schedule of its momentum by this name.
    decay = None if written.get("class_name") == "Nadam" else config.get("decay")
    if decay and not isinstance(rate, dict):
        slower = {"initial_learning_rate": rate, "decay_steps": 1, "decay_rate": decay}
        rate = {"class_name": "InverseTimeDecay", "config": slower}
    if isinstance(rate, dict):
        settings["learning_rate"] = classes.object_in(SCHEDULES, rate)
    if settings.get("epsilon", "") is None:
        del settings["epsilon"]
    name = str(written.get("class_name"))
    if "registered_name" not in written:  # HDF5 files name Keras's own "Custom>Adam"
        name = name.removeprefix("Custom>")
    stock = {"class_name": name, "config": settings}
    return classes.object_in("keras.optimizers", stock)


# Names that compile turns into a metric by the loss and the shape of the output.
CHOSEN_BY_COMPILE, CROSSENTROPIES = ("accuracy", "acc"), ("crossentropy", "ce")
BINARY = {"binary_crossentropy", "BinaryCrossentropy"}
# The first TensorFlow whose `accuracy` compares the largest outputs, whatever the loss,
# and whose metrics by the name of a class are called as its objects are: `auc`.
COMPARES_LARGEST = NAMES_OBJECTS = 2, 2
# Loss -> what its targets say about the crossentropy of an output with several numbers.
KIND_OF_TARGETS = {
    **dict.fromkeys(
        ("categorical_crossentropy", "CategoricalCrossentropy"), "Categorical"
    ),
    **dict.fromkeys(BINARY, "Categorical"),
    "sparse_categorical_crossentropy": "SparseCategorical",
    "SparseCategoricalCrossentropy": "SparseCategorical",
}
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
    not_converted: tuple[str, ...] = ()  # what cannot be read, with the reason

    def explicit_loss_scale(self, dtypes: Iterable[Any]) -> LossScale | None:
        """Return the loss scale, or None if one of the policies, as written, has it."""
        is_brought = self.is_experimental and any(
            policies.loss_scale_of(dtype) == self.loss_scale
            for dtype in dtypes
            if policy_name(dtype) is not None
        )
        return None if is_brought else self.loss_scale


def training_of(written: Config, is_optimizer_wrapped: bool = False) -> Training:
    """Return the `Training`, or raise ValueError if its loss scale is not one."""
    optimizer = written.get("optimizer_config") or {}
    if isinstance(optimizer, str):
        optimizer = {"class_name": optimizer, "config": {}}
    inner, loss_scale, is_experimental = unwrapped(optimizer)
    if is_optimizer_wrapped:
        loss_scale = DynamicLossScale()
    metrics: dict[str, Nest] = {}
    problems = []
    for key in ("metrics", "weighted_metrics"):
        try:
            metrics[key] = trees.mapped(
                partial(keras_objective, "keras.metrics"),
                without_outer_list(written.get(key)),
                is_leaf=is_config,
            )
        except UNEXPECTED as error:
            problems.append(unreadable(key, error))
    return Training(
        optimizer=keras_optimizer(inner),
        loss_scale=loss_scale,
        is_experimental=is_experimental,
        losses=trees.mapped(
            partial(keras_objective, "keras.losses"),
            written.get("loss"),
            is_leaf=is_config,
        ),
        loss_weights=written.get("loss_weights"),
        metrics=metrics.get("metrics"),
        weighted_metrics=metrics.get("weighted_metrics"),
        not_converted=tuple(problems),
    )


def unreadable(part: str, error: Exception) -> LeftOut:
    """Return the note on a part of a training configuration that is left out."""
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    text = f"{part}, which cannot be read ({reason[: limits.TOLD_REASON]})"
    return LeftOut(text, "KP601")


def is_config(nest: Nest) -> bool:
    """Return whether a nest is the config of one object."""
    return isinstance(nest, dict) and "class_name" in nest


def unknown(kind: str, value: str | Config) -> str | None:
    """Return the name if Keras has no such loss, metric or optimizer (`kind`)."""
    if not isinstance(value, str):
        name, module = str(value["class_name"]), value["module"]
        inner: Any = value["config"]
        if name == "function":
            return None if keras_names.registered(inner) is not None else str(inner)
        if module is not None and not classes.is_in(module, name):
            return name
        ignored = inner.get(IGNORED) if isinstance(inner, dict) else None
        if ignored is not None and (kind, name) == IGNORES and module is not None:
            return name
        rate: Any = inner.get("learning_rate") if isinstance(inner, dict) else None
        return unknown(kind, rate) if is_config(rate) else None
    is_chosen = kind == "metrics" and value in CHOSEN_BY_COMPILE
    is_own = keras_names.registered(value) is not None
    return None if is_own or is_chosen or is_known(kind, value) else value


def missing(training: Training | None) -> list[str]:
    """Return the names of losses and metrics that `custom_objects` has to give."""
    if training is None:
        return []

    def names(kind: str, *nests: Nest) -> set[str | None]:
        leaves = trees.leaves(nests, is_config)
        return {unknown(kind, leaf) for leaf in leaves if leaf is not None}

    unknown_names = names("losses", training.losses)
    unknown_names |= names("metrics", training.metrics, training.weighted_metrics)
    wanted = unknown_names.difference(CROSSENTROPIES)
    return sorted(name for name in wanted if name is not None)


def meanings(
    losses: Nest, sizes: Sequence[int | None], release: Release
) -> dict[str, str]:
    """Return the classes that the names of metrics meant where Keras 3 takes others.

    `sizes` are the last axes of the outputs.

    - Up to TensorFlow 2.1, `"accuracy"` compared each number of an output under
      `binary_crossentropy`; since then, only which number is the largest. Source:
      tensorflow/python/keras/engine/training_utils.py of 2.1, `get_metric_function`.
    - Keras 3 does not choose the class of `"crossentropy"`; here it is chosen if all
      outputs agree. Source: keras/engine/compile_utils.py of 2.15,
      `_get_metric_object`.
    """
    names = {
        loss if isinstance(loss, str) else loss["class_name"]
        for loss in trees.leaves(losses, is_config)
        if loss is not None
    }
    found: dict[str, str] = {}
    if release < COMPARES_LARGEST and names and names <= BINARY:
        found |= dict.fromkeys(CHOSEN_BY_COMPILE, "BinaryAccuracy")
    is_column = {*sizes} == {1}
    kinds = {"Binary"} if is_column else {*map(KIND_OF_TARGETS.get, names)}
    if len(kinds) == 1 and None not in kinds and (is_column or 1 not in sizes):
        found |= dict.fromkeys(CROSSENTROPIES, f"{kinds.pop()}Crossentropy")
    return found


def with_classes(
    metrics: Nest,
    class_names: Mapping[str, str],
    sizes: Sequence[int | None],
    release: Release,
) -> Nest:
    """Return metrics with objects in place of names that Keras 3 takes otherwise.

    These are the names in `class_names`, and those of classes, by which Keras 3 calls
    a metric. `sizes` are the last axes of the outputs: if all are smaller than the `k`
    of a metric of the k largest numbers, it takes all, since Keras fails on torch.
    """
    most = sizes[0] if len({*sizes}) == 1 else None

    def named(metric: str) -> Nest:
        if keras_names.registered(metric) is not None:
            return metric
        class_name, name = class_names.get(metric, TOP_K.get(metric)), metric
        is_old = release < NAMES_OBJECTS
        is_chosen = not is_old and metric.lower() in CHOSEN_BY_COMPILE  # "Accuracy"
        is_class = keras_names.is_class("keras.metrics", metric)
        if class_name is None and is_class and not is_chosen:
            class_name, name = metric, metric if is_old else snake_case(metric)
        if class_name is None:
            return metric
        written = {"class_name": class_name, "config": {"name": name}}
        return classes.object_in("keras.metrics", written)

    def chosen(metric: Any) -> Any:
        metric = named(metric) if isinstance(metric, str) else metric
        is_top = is_config(metric) and metric["class_name"] in TOP_K.values()
        if not (is_top and metric["module"] and most):
            return metric
        settings = metric["config"]
        k = settings.get("k", 5)
        k = min(k, most) if isinstance(k, int) else k
        return {**metric, "config": {**settings, "k": k}}

    return trees.mapped(chosen, metrics, is_leaf=is_config)
