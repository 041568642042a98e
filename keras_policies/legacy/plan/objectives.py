"""Converts the losses and metrics of a legacy `training_config`.

Each was written as a function's name, an object, or a wrapper around a function.
"""

from typing import Any

from keras_policies.annotations import Config
from keras_policies.legacy.plan import classes, policies

REDUCTIONS = {"auto": "sum_over_batch_size"}
# Wrappers that tf.keras wrote where the user had named a function.
FUNCTION_WRAPPERS = "MeanMetricWrapper", "LossFunctionWrapper", "SumOverBatchSizeMetric"
# The metric class of a function, so that a name such as "accuracy" can be kept.
CLASSES = {
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


def _function_name(written: Any) -> str | None:
    """Return the name of the function that a config stands for, or None."""
    if isinstance(written, dict) and written.get("class_name") == "function":
        written = written.get("config")
    return written if isinstance(written, str) else None


def keras_loss(written: Any) -> str | Config:
    """Return the Keras 3 config of a loss, or the name of its function."""
    function = _function_name(written)
    if function is not None:
        return function
    settings = dict(written.get("config") or {})
    function = _function_name(settings.pop("fn", None))
    if written["class_name"] in FUNCTION_WRAPPERS and function:
        return function
    if "reduction" in settings:
        reduction = settings["reduction"]
        settings["reduction"] = REDUCTIONS.get(reduction, reduction)
    return classes.object_in("keras.losses", {**written, "config": settings})


def keras_metric(written: Any) -> str | Config:
    """Return the Keras 3 config of a metric, or the name of its function."""
    function = _function_name(written)
    if function is not None:
        return function
    settings = dict(written.get("config") or {})
    function = _function_name(settings.pop("fn", None))
    class_name = written["class_name"]
    if class_name in FUNCTION_WRAPPERS and function is not None:
        if function not in CLASSES:
            return function
        class_name = CLASSES[function]
    if isinstance(settings.get("dtype"), dict):
        settings["dtype"] = policies.variable_dtype(settings["dtype"])
    known = {"class_name": class_name, "config": settings}
    return classes.object_in("keras.metrics", known)


def without_outer_list(written: Any) -> Any:
    """Return metrics without the list that 2.x puts around those of one output."""
    if isinstance(written, list | tuple) and len(written) == 1:
        (only,) = written
        return only if isinstance(only, list | tuple) else written
    return written
