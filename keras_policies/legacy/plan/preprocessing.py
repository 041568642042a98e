"""Puts what preprocessing layers have learned into their configs for Keras 3.

That is a vocabulary with the inverse document frequencies, or the boundaries of bins.
Sources: keras/layers/preprocessing/{category_encoding,discretization,hashing}.py of
TensorFlow 2.4, Keras 2.10 and 2.15, Keras 3.
"""

from collections.abc import Container
from typing import Any

import numpy as np

from keras_policies.annotations import Config
from keras_policies.legacy.base.configs import (
    LOOKUPS,
    keras_function,
    output_mode,
    policy_name,
)
from keras_policies.legacy.base.model import Array, Vocabulary
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan import classes, lookups
from keras_policies.legacy.plan.classes import KerasClass
from keras_policies.legacy.plan.lookups import TF_IDF, NothingLearnedError
from keras_policies.legacy.plan.report import Converting, Options, Report

INTEGERS = "int32", "int64"
# Hashing of 2.4 wrote this where it had no salt, and did not use it.
NO_SALT = [0xDECAFCAFFE, 0xDECAFCAFFE]
# CategoryEncoding of 2.4 ignored entries with this value, which sparse inputs have.
NO_ENTRY = -1
# The argument of a TextVectorization -> the functions that it gives by their names.
TEXT_FUNCTIONS = {
    "standardize": ("lower_and_strip_punctuation", "lower", "strip_punctuation"),
    "split": ("whitespace", "character"),
}
LISTED_BYTES = 64  # of memory that a number in a list takes


def with_state(
    cls: KerasClass, config: Config, options: Options, path: str
) -> Converting[Config]:
    """Return a config, in the names of Keras 3, with the layer's learned state."""
    learned = options.vocabularies.get(path, Vocabulary())
    if cls.name == "TextVectorization":
        for name, names in TEXT_FUNCTIONS.items():
            function = yield from _function(config.get(name), names, path)
            config = {**config, name: function}
    try:
        if cls.name in LOOKUPS:
            is_safe = options.safe_mode
            config = lookups.lookup_arguments(cls.name, config, learned, is_safe)
        elif cls.name == "CategoryEncoding" and output_mode(config) in TF_IDF:
            cls = KerasClass("keras.layers", "IntegerLookup")
            config = _frequencies(config, learned)
        elif cls.name == "CategoryEncoding" and config.get("num_tokens") is None:
            config = {**config, "num_tokens": _counted(learned)}
        elif cls.name == "Discretization":
            config = _discretization(config, learned)
        elif cls.name == "Hashing":
            config = _hashing(config)
    except NothingLearnedError as error:
        yield Report(without_vocabulary={path: str(error)})
    return cls.with_config(config)


def _function(value: Any, names: Container[Any], path: str) -> Converting[Any]:
    """Return the name of a function that Keras knows, or the config of the user's."""
    name = value.get("config") if isinstance(value, dict) else value
    if not isinstance(name, str) or name in names:
        return value
    custom = classes.registered_name(name)
    if custom is None:
        yield Report(missing=((name, path),))
        return value
    return keras_function(custom)


def _frequencies(config: Config, learned: Vocabulary) -> Config:
    """Return the config of an IntegerLookup that gives tf-idf as the layer did."""
    weights = learned.weight("idf")
    size = config.get("num_tokens") or (0 if weights is None else weights.size)
    budget.spend(size, LISTED_BYTES)
    return {
        "name": config.get("name"),
        "output_mode": "tf_idf",
        "num_oov_indices": 0,
        "mask_token": NO_ENTRY,
        "oov_token": NO_ENTRY,
        "vocabulary": list(range(size)),
        "idf_weights": lookups.idf_weights(learned, size),
    }


def _counted(learned: Vocabulary) -> int:
    """Return the number of tokens that a CategoryEncoding has learned."""
    count = learned.weight("num_elements")
    if count is None or count.size != 1:
        raise NothingLearnedError("the file holds no number of tokens: was it adapted?")
    return int(count.reshape(()))


def _discretization(config: Config, learned: Vocabulary) -> Config:
    """Return the config with the boundaries that the layer was given or has learned."""
    boundaries = config.get("bin_boundaries")
    if boundaries is None:
        summary = learned.weight("summary", "0")
        if summary is None or summary.ndim != 2 or not summary.size:
            raise NothingLearnedError("the file holds no boundaries: was it adapted?")
        budget.spend(config["num_bins"], LISTED_BYTES)
        boundaries = _boundaries(summary, config["num_bins"])
    finite = [value for value in boundaries if value != float("inf")]  # 2.4 added it
    return {**config, "bin_boundaries": finite, "num_bins": None}


def _boundaries(summary: Array, bins: int) -> list[float]:
    """Return the boundaries of bins, as `Discretization` computes them on loading.

    `summary` has the shape (2, n): values, and how often each occurred.
    """
    values, counts = summary
    if len(values) < bins:
        return list(values[:-1].tolist())
    shares = counts.cumsum() / counts.sum()
    wanted = 1.0 / bins + np.arange(0.0, 1.0, 1.0 / bins)
    boundaries = np.interp(wanted, shares, values)[:-1]
    return list(boundaries.astype("float32").tolist())


def _hashing(config: Config) -> Config:
    new = dict(config)
    if new.get("salt") == NO_SALT:
        new["salt"] = None
    if output_mode(new) == "int" and policy_name(new.get("dtype")) not in INTEGERS:
        new.pop("dtype", None)
    return new
