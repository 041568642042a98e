"""The arguments of text layers, and the values that are supported outside of a model.

The arguments are those of Keras 3; they come from a model or from JSON.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from keras_policies._common.types import Config
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.guards import limits

Check: TypeAlias = Callable[[Any], bool]  # errors show its name as the expected value
BOTH = "lower_and_strip_punctuation"
COUNTS = "multi_hot", "count", "tf_idf"


def _are(value: Any, is_item: Check) -> bool:
    return isinstance(value, list | tuple) and all(map(is_item, value))


def _a_text(value: Any) -> bool:
    return isinstance(value, str)


def _texts(value: Any) -> bool:
    return _are(value, _a_text) and len(value) > 0


def _numbers(value: Any) -> bool:
    return _are(value, lambda item: type(item) in (int, float))


def _a_size(value: Any) -> bool:
    return type(value) is int and 0 <= value <= limits.TEXT_COUNTS


def _a_small_number(value: Any) -> bool:
    return _a_size(value) and value <= limits.JSON_NUMBERS["num_oov_indices"]


def _a_width(value: Any) -> bool:
    return type(value) is int and 0 < value <= limits.TEXT_WIDTHS


def _widths(value: Any) -> bool:
    return _are(value, _a_width) and len(value) <= limits.TEXT_WIDTHS


def _bins(value: Any) -> bool:
    return type(value) is int and 0 < value < limits.TEXT_BINS


def _whole_numbers(value: Any) -> bool:
    return type(value) is int or (
        _are(value, lambda item: type(item) is int) and len(value) == 2
    )


LEARNED: Mapping[str, tuple[Any, ...]] = {
    "vocabulary": (_texts,),
    "idf_weights": (None, _numbers),
    "max_tokens": (None, _a_size),
    "pad_to_max_tokens": (None, False, True),
    "output_mode": ("int", *COUNTS, "one_hot"),
    "sparse": (None, False),
}
# Class -> argument -> its allowed values, or functions that check a value.
ARGUMENTS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "StringLookup": {
        **LEARNED,
        "mask_token": (None, _a_text),
        "oov_token": (None, _a_text),
        "num_oov_indices": (_a_small_number,),
        "invert": (None, False),
    },
    "TextVectorization": {
        **LEARNED,
        "standardize": (None, "lower", "strip_punctuation", BOTH),
        "split": (None, "whitespace", "character"),
        "ngrams": (None, _a_width, _widths),
        "output_mode": ("int", *COUNTS),
        "output_sequence_length": (None, _a_size),
        "ragged": (None, False),
    },
    "Hashing": {
        "num_bins": (_bins,),
        "mask_value": (None, _a_text),
        "salt": (None, _whole_numbers),
        "output_mode": ("int", "multi_hot", "count", "one_hot"),
        "sparse": (None, False),
    },
}

# Defaults of arguments that old releases did not write, and old names of modes.
DEFAULTS: Config = {
    "num_oov_indices": 1,
    "oov_token": "[UNK]",
    "output_mode": "int",
    "split": "whitespace",
    "standardize": BOTH,
}
MODES = {"binary": "multi_hot", "tf-idf": "tf_idf"}


def checked(class_name: str, config: Mapping[str, Any]) -> Config:
    """Return the arguments that affect a layer, or raise LegacyModelError."""
    if class_name not in ARGUMENTS:
        raise LegacyModelError(f"corrupt: {class_name!r} is not a text layer.")
    config = {**DEFAULTS, **config}
    mode = config["output_mode"]
    config["output_mode"] = MODES.get(mode, mode) if _a_text(mode) else mode
    for name, values in ARGUMENTS[class_name].items():
        value = config.get(name)
        if not any(v(value) if callable(v) else _is(value, v) for v in values):
            told = value.get("config") if isinstance(value, dict) else value
            expected = (_name(v) if callable(v) else repr(v) for v in values)
            raise LegacyModelError(
                f"its {name} is {str(told)[: limits.TOLD_NAME]!r}; outside of the "
                f"model, {class_name} supports only: {', '.join(expected)}.",
                f"Leave {hints.OUTSIDE} out, and set KERAS_BACKEND=tensorflow.",
                code="KP306",
            )
    return {name: config.get(name) for name in ARGUMENTS[class_name]}


def _is(value: Any, other: Any) -> bool:
    return type(value) is type(other) and bool(value == other)


def _name(check: Check) -> str:
    return check.__name__[1:].replace("_", " ")
