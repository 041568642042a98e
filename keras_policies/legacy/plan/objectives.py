"""Converts the losses and metrics of a legacy `training_config`.

Each was written as a function's name, an object, or a wrapper around a function.
"""

from typing import Any

from keras_policies import keras_names
from keras_policies.annotations import Config
from keras_policies.late import keras
from keras_policies.legacy.base.names import snake_case
from keras_policies.legacy.plan import classes, policies

# Wrappers that tf.keras wrote where the user had named a function.
FUNCTION_WRAPPERS = "MeanMetricWrapper", "LossFunctionWrapper", "SumOverBatchSizeMetric"
# The metric class of a function, so that a name such as "accuracy" can be kept.
CLASSES = {
    "kl_divergence": "KLDivergence",
    "kullback_leibler_divergence": "KLDivergence",
    "log_cosh": "LogCoshError",
    "logcosh": "LogCoshError",
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
# Names by which Keras gets a loss or a metric, beside the public ones of its modules,
# and public ones by which it does not.
SHORT = "bce", "mae", "mape", "mse", "msle", "BCE", "MAE", "MAPE", "MSE", "MSLE"
BY_NAME = {"losses": (*SHORT, "KLD", "kld"), "metrics": SHORT}
NOT_METRICS = (
    *("huber", "log_cosh"),
    *("binary_focal_crossentropy", "categorical_focal_crossentropy"),
)
NOT_BY_NAME = {"metrics": NOT_METRICS}


def is_known(kind: str, name: str) -> bool:
    """Return whether Keras gets a loss, a metric or an optimizer by a name.

    `kind` is `"losses"`, `"metrics"` or `"optimizers"`.
    """
    if keras_names.can_be_read():
        found = keras_names.names(kind)
        classes = (key for key in found if keras_names.is_class(f"keras.{kind}", key))
        known = {*found, *map(snake_case, classes), *BY_NAME.get(kind, ())}
        return name in known.difference(NOT_BY_NAME.get(kind, ()))
    try:
        getattr(keras, kind).get(name)
    except ValueError:
        return False
    return True


def _function_name(written: Any) -> str | None:
    """Return the name of the function that a config stands for, or None."""
    if isinstance(written, dict) and written.get("class_name") == "function":
        written = written.get("config")
    return written if isinstance(written, str) else None


def keras_objective(module: str, written: Any) -> str | Config:
    """Return the Keras 3 config of a loss or a metric, or the name of its function.

    `module` is `"keras.losses"` or `"keras.metrics"`.
    """
    named = _function_name(written)
    if named is not None:
        return named
    is_metric = module == "keras.metrics"
    class_name, settings = written["class_name"], dict(written.get("config") or {})
    function = _function_name(settings.pop("fn", None))
    if class_name in FUNCTION_WRAPPERS and function is not None:
        if not is_metric or function not in CLASSES:
            return function
        class_name = CLASSES[function]
    if is_metric and isinstance(settings.get("dtype"), dict):
        settings["dtype"] = policies.variable_dtype(settings["dtype"])
    if not is_metric and settings.get("reduction") == "auto":
        settings["reduction"] = "sum_over_batch_size"
    known = {"class_name": class_name, "config": settings}
    return classes.object_in(module, known)


def without_outer_list(written: Any) -> Any:
    """Return metrics without the list that 2.x puts around those of one output."""
    if isinstance(written, list | tuple) and len(written) == 1:
        (only,) = written
        return only if isinstance(only, list | tuple) else written
    return written
