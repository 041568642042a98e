"""The arguments of layers of texts that are followed here, and what they may be.

They are those of Keras 3, from a model or from JSON.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from keras_policies._common.types import Config
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.guards import limits

Check: TypeAlias = Callable[[Any], bool]
BOTH = "lower_and_strip_punctuation"
COUNTS = "multi_hot", "count", "tf_idf"


def _are(value: Any, is_item: Check) -> bool:
    return isinstance(value, list | tuple) and all(map(is_item, value))


def a_text(value: Any) -> bool:
    """Return whether a value is a text."""
    return isinstance(value, str)


def texts(value: Any) -> bool:
    """Return whether a value is a list of texts, at least one."""
    return _are(value, a_text) and len(value) > 0


def numbers(value: Any) -> bool:
    """Return whether a value is a list of numbers."""
    return _are(value, lambda item: type(item) in (int, float))


def a_size(value: Any) -> bool:
    """Return whether a value is a size."""
    return type(value) is int and 0 <= value <= limits.TEXT_COUNTS


def few(value: Any) -> bool:
    """Return whether a value is a number of indices for unknown words."""
    return a_size(value) and value <= limits.JSON_NUMBERS["num_oov_indices"]


def a_width(value: Any) -> bool:
    """Return whether a value is the width of n-grams."""
    return type(value) is int and 0 < value <= limits.TEXT_WIDTHS


def widths(value: Any) -> bool:
    """Return whether a value is a list of widths."""
    return _are(value, a_width) and len(value) <= limits.TEXT_WIDTHS


def bins(value: Any) -> bool:
    """Return whether a value is a number of bins."""
    return type(value) is int and 0 < value < limits.TEXT_BINS


def whole_numbers(value: Any) -> bool:
    """Return whether a value is one whole number, or a list of two."""
    return type(value) is int or (
        _are(value, lambda item: type(item) is int) and len(value) == 2
    )


LEARNED: Mapping[str, tuple[Any, ...]] = {
    "vocabulary": (texts,),
    "idf_weights": (None, numbers),
    "max_tokens": (None, a_size),
    "pad_to_max_tokens": (None, False, True),
    "output_mode": ("int", *COUNTS, "one_hot"),
    "sparse": (None, False),
}
# Class -> argument -> the values that it may have, or functions that check them.
ARGUMENTS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "StringLookup": {
        **LEARNED,
        "mask_token": (None, a_text),
        "oov_token": (None, a_text),
        "num_oov_indices": (few,),
        "invert": (None, False),
    },
    "TextVectorization": {
        **LEARNED,
        "standardize": (None, "lower", "strip_punctuation", BOTH),
        "split": (None, "whitespace", "character"),
        "ngrams": (None, a_width, widths),
        "output_mode": ("int", *COUNTS),
        "output_sequence_length": (None, a_size),
        "ragged": (None, False),
    },
    "Hashing": {
        "num_bins": (bins,),
        "mask_value": (None, a_text),
        "salt": (None, whole_numbers),
        "output_mode": ("int", "multi_hot", "count", "one_hot"),
        "sparse": (None, False),
    },
}

# What configs of old releases leave out, and their names of modes.
DEFAULTS: Config = {
    "num_oov_indices": 1,
    "oov_token": "[UNK]",
    "output_mode": "int",
    "split": "whitespace",
    "standardize": BOTH,
}
MODES = {"binary": "multi_hot", "tf-idf": "tf_idf"}


def checked(class_name: str, config: Mapping[str, Any]) -> Config:
    """Return the arguments of a layer that count, or raise LegacyModelError."""
    if class_name not in ARGUMENTS:
        raise LegacyModelError(f"corrupt: {class_name!r} is no layer of texts.")
    config = {**DEFAULTS, **config}
    mode = config["output_mode"]
    config["output_mode"] = MODES.get(mode, mode) if a_text(mode) else mode
    for name, values in ARGUMENTS[class_name].items():
        value = config.get(name)
        if not any(v(value) if callable(v) else _is(value, v) for v in values):
            told = value.get("config") if isinstance(value, dict) else value
            expected = (v.__name__ if callable(v) else repr(v) for v in values)
            raise LegacyModelError(
                f"its {name} is {str(told)[: limits.TOLD_NAME]!r}; read outside of the "
                f"model, {class_name} has one of: {', '.join(expected)}.",
                f"Leave {hints.OUTSIDE} out, and set KERAS_BACKEND=tensorflow.",
                code="KP306",
            )
    return {name: config.get(name) for name in ARGUMENTS[class_name]}


def _is(value: Any, other: Any) -> bool:
    return type(value) is type(other) and bool(value == other)
