"""Turns a legacy `training_config` into what `Model.compile` of Keras 3 takes.

Dicts in, new dicts out. An optimizer's wrapper for loss scaling is taken off and
described beside it; losses and metrics get the names that Keras 3 knows.
"""

import dataclasses
import functools

import keras

from keras_policies import loss_scale as loss_scales
from keras_policies.legacy.base.policies import policy_name
from keras_policies.legacy.plan import classes, policies

LOSS_SCALE_OPTIMIZERS = (
    "LossScaleOptimizer",  # 2.0 to 2.3, and 2.4 and on
    "LossScaleOptimizerV1",  # 2.4 to 2.8, from the experimental API
    "LossScaleOptimizerV3",  # 2.11 and on
)
# Settings of tf.keras optimizers that Keras 3 does without.
OPTIMIZER_DROPPED = "decay", "is_legacy_optimizer", "jit_compile", "schedule_decay"
OPTIMIZER_RENAMED = {"lr": "learning_rate"}
SCHEDULES = "keras.optimizers.schedules"
REDUCTIONS = {"auto": "sum_over_batch_size"}
# Wrappers that tf.keras wrote where the user had named a function.
FUNCTION_WRAPPERS = "MeanMetricWrapper", "LossFunctionWrapper", "SumOverBatchSizeMetric"
# Names that compile turns into a metric by the loss and the shape of the output.
CHOSEN_BY_COMPILE = "accuracy", "acc", "crossentropy", "ce"
# The metric class of a function, so that a name such as "accuracy" can be kept.
METRIC_CLASSES = {
    "accuracy": "Accuracy",
    "binary_accuracy": "BinaryAccuracy",
    "categorical_accuracy": "CategoricalAccuracy",
    "sparse_categorical_accuracy": "SparseCategoricalAccuracy",
    "top_k_categorical_accuracy": "TopKCategoricalAccuracy",
    "sparse_top_k_categorical_accuracy": "SparseTopKCategoricalAccuracy",
    "mean_squared_error": "MeanSquaredError",
    "mean_absolute_error": "MeanAbsoluteError",
    "mean_absolute_percentage_error": "MeanAbsolutePercentageError",
    "mean_squared_logarithmic_error": "MeanSquaredLogarithmicError",
    "binary_crossentropy": "BinaryCrossentropy",
    "categorical_crossentropy": "CategoricalCrossentropy",
    "sparse_categorical_crossentropy": "SparseCategoricalCrossentropy",
    "kl_divergence": "KLDivergence",
    "kullback_leibler_divergence": "KLDivergence",
    "poisson": "Poisson",
    "hinge": "Hinge",
    "squared_hinge": "SquaredHinge",
    "categorical_hinge": "CategoricalHinge",
    "log_cosh": "LogCoshError",
    "logcosh": "LogCoshError",
    "cosine_similarity": "CosineSimilarity",
}


@dataclasses.dataclass(frozen=True)
class Training:
    """What to compile a model with, in configs of Keras 3.

    Args:
        optimizer: dict, the config of the inner optimizer.
        loss_scale: `LossScale` of a LossScaleOptimizer around it, or None.
        is_experimental: bool, whether that wrapper is of the experimental API, in
            which the policy may have brought it.
        losses, loss_weights, metrics, weighted_metrics: as `compile` takes them,
            with configs in place of objects.
    """

    optimizer: dict
    loss_scale: loss_scales.LossScale | None
    is_experimental: bool
    losses: object
    loss_weights: object
    metrics: object
    weighted_metrics: object


def convert(config, is_optimizer_wrapped=False):
    """Return the `Training` of a legacy `training_config`.

    Args:
        config: dict, as written.
        is_optimizer_wrapped: bool, as `LegacyModel` has it.

    Raises:
        ValueError: if the loss scale in it is none.
    """
    optimizer = config.get("optimizer_config") or {}
    if isinstance(optimizer, str):
        optimizer = {"class_name": optimizer, "config": {}}
    inner, loss_scale, is_experimental = _without_wrapper(optimizer)
    if is_optimizer_wrapped:
        loss_scale = loss_scales.DynamicLossScale()
    return Training(
        optimizer=_optimizer(inner),
        loss_scale=loss_scale,
        is_experimental=is_experimental,
        losses=_nest(_loss, config.get("loss")),
        loss_weights=config.get("loss_weights"),
        metrics=_nest(_metric, _metrics(config.get("metrics"))),
        weighted_metrics=_nest(_metric, _metrics(config.get("weighted_metrics"))),
    )


def unknown(kind, value):
    """Return the name in a config that neither Keras nor the user knows, or None.

    Args:
        kind: str, `"losses"`, `"metrics"` or `"optimizers"`.
        value: str or dict, a config of Keras 3, of one.
    """
    if not isinstance(value, str):
        name, module = value["class_name"], value["module"]
        return None if module is None or classes.is_in(module, name) else name
    if keras.saving.get_registered_object(value) is not None or (
        kind == "metrics" and value in CHOSEN_BY_COMPILE
    ):
        return None
    try:
        getattr(keras, kind).get(value)
    except ValueError:
        return value
    return None


def missing(training):
    """Return the names of losses and metrics that `custom_objects` has to give.

    Args:
        training: `Training`, or None.
    """
    if training is None:
        return []
    found = []
    for kind in "losses", "metrics", "weighted_metrics":
        nest = getattr(training, kind)
        _nest(functools.partial(_note, found, kind.removeprefix("weighted_")), nest)
    return sorted({name for name in found if name is not None})


def _note(found, kind, value):
    found.append(unknown(kind, value))


def policy_brings(training, dtypes):
    """Return whether one of the model's policies explains the loss scale.

    Args:
        training: `Training`.
        dtypes: the policies of the model and its layers, as written.
    """
    return training.is_experimental and any(
        policies.loss_scale_of(dtype) == training.loss_scale
        for dtype in dtypes
        if policy_name(dtype) is not None
    )


def _without_wrapper(optimizer):
    """Return `(inner config, LossScale or None, is experimental)`."""
    name, config = optimizer.get("class_name"), optimizer.get("config") or {}
    if str(name).rpartition(">")[2] not in LOSS_SCALE_OPTIMIZERS:
        return optimizer, None, False
    if "loss_scale" in config:  # 2.0 to 2.3
        scale = loss_scales.get(config["loss_scale"])
        return config.get("optimizer") or {}, scale, True
    inner = config.get("inner_optimizer") or config.get("optimizer") or {}
    initial = config.get("initial_scale")
    if config.get("dynamic", True):
        rule = loss_scales.DynamicLossScale()
        scale = loss_scales.DynamicLossScale(
            initial or rule.initial_loss_scale,
            config.get("dynamic_growth_steps") or rule.increment_period,
        )
    else:
        scale = loss_scales.FixedLossScale(initial)
    return inner, scale, name == "LossScaleOptimizerV1"


def _optimizer(config):
    """Return the Keras 3 config of an optimizer; `decay` becomes a schedule."""
    settings = {
        OPTIMIZER_RENAMED.get(key, key): value
        for key, value in (config.get("config") or {}).items()
        if key not in OPTIMIZER_DROPPED
    }
    rate = settings.get("learning_rate")
    decay = (config.get("config") or {}).get("decay")
    if config.get("class_name") == "Nadam":
        decay = None  # it was the name of another thing, the momentum's schedule
    if isinstance(rate, dict):
        settings["learning_rate"] = _in_module(SCHEDULES, rate)
    elif decay:
        schedule = {
            "initial_learning_rate": rate,
            "decay_steps": 1,
            "decay_rate": decay,
        }
        inverse = {"class_name": "InverseTimeDecay", "config": schedule}
        settings["learning_rate"] = _in_module(SCHEDULES, inverse)
    if "epsilon" in settings and settings["epsilon"] is None:
        del settings["epsilon"]
    return _in_module("keras.optimizers", {**config, "config": settings})


def _in_module(module, config):
    """Return a config that Keras 3 finds: the user's class first, then its own."""
    class_name = str(config.get("class_name"))
    known = {"module": module, "registered_name": None}
    custom = classes.registered_name(class_name)
    if custom is not None:
        known = {"module": None, "registered_name": custom}
    # From 2.11 on an optimizer is written as "Custom>Adam".
    known["class_name"] = class_name.removeprefix("Custom>")
    settings = dict(config.get("config") or {})
    if settings.get("name", "") is None:
        del settings["name"]
    return {**known, "config": settings}


def _nest(convert_one, value):
    """Return a nest with `convert_one` applied to the configs and names in it."""
    if isinstance(value, dict) and "class_name" not in value:
        return {key: _nest(convert_one, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_nest(convert_one, item) for item in value]
    return None if value is None else convert_one(value)


def _metrics(value):
    """Return metrics without the list around those of a single output."""
    if isinstance(value, list | tuple) and len(value) == 1:
        (only,) = value
        return only if isinstance(only, list | tuple) else value
    return value


def without_output_names(metrics, output_names):
    """Return metrics with their own names: tf.keras had put the output's before it.

    Args:
        metrics: nest of configs; for several outputs a dict, or a list of lists.
        output_names: list of str.
    """
    if len(output_names) < 2 or not isinstance(metrics, list | dict):
        return metrics
    if isinstance(metrics, dict):
        return {name: _unprefixed(item, name) for name, item in metrics.items()}
    if len(metrics) != len(output_names):
        return metrics
    return [
        _unprefixed(item, name)
        for item, name in zip(metrics, output_names, strict=True)
    ]


def _unprefixed(value, output_name):
    if isinstance(value, list):
        return [_unprefixed(item, output_name) for item in value]
    if not isinstance(value, dict) or not isinstance(value["config"].get("name"), str):
        return value
    name = value["config"]["name"].removeprefix(f"{output_name}_")
    return {**value, "config": {**value["config"], "name": name}}


def _function(value):
    """Return the name of a function that a config stands for, or None."""
    if isinstance(value, dict) and value.get("class_name") == "function":
        value = value.get("config")
    return value if isinstance(value, str) else None


def _loss(value):
    if _function(value) is not None:
        return _function(value)
    settings = dict(value.get("config") or {})
    if value["class_name"] in FUNCTION_WRAPPERS and _function(settings.get("fn")):
        return _function(settings["fn"])
    settings.pop("fn", None)
    if "reduction" in settings:
        reduction = settings["reduction"]
        settings["reduction"] = REDUCTIONS.get(reduction, reduction)
    return _in_module("keras.losses", {**value, "config": settings})


def _metric(value):
    if _function(value) is not None:
        return _function(value)
    settings = dict(value.get("config") or {})
    function = _function(settings.pop("fn", None))
    class_name = value["class_name"]
    if class_name in FUNCTION_WRAPPERS and function is not None:
        if function not in METRIC_CLASSES:
            return function
        class_name = METRIC_CLASSES[function]
    if isinstance(settings.get("dtype"), dict):
        settings["dtype"] = policies.variable_dtype(settings["dtype"])
    return _in_module("keras.metrics", {"class_name": class_name, "config": settings})
