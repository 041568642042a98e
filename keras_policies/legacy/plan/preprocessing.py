"""Puts what preprocessing layers have learned into their configs for Keras 3.

That is a vocabulary with the inverse document frequencies, or the boundaries of bins.
Sources: keras/layers/preprocessing/{category_encoding,discretization,hashing,
index_lookup,text_vectorization}.py of TensorFlow 2.4, Keras 2.10 and 2.15, Keras 3.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from keras_policies._common.types import Config
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.configs import (
    LOOKUPS,
    output_mode,
    policy_name,
    special_tokens,
)
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import Vocabulary
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import budget
from keras_policies.legacy.plan import classes
from keras_policies.legacy.plan.classes import KerasClass
from keras_policies.legacy.plan.report import Converting, Options, Report

TF_IDF = "tf_idf", "tf-idf"


class NothingLearnedError(Exception):
    """The file does not hold what a layer has learned; the message says why."""


def lookup_arguments(
    class_name: str, config: Config, learned: Vocabulary, safe_mode: bool
) -> Config:
    """Return the arguments of a lookup layer with its vocabulary.

    `config` already has the names of Keras 3. In safe mode, a vocabulary file that it
    names is refused. Without a vocabulary, raise NothingLearnedError.
    """
    if config.get("pad_to_max_tokens") and config.get("max_tokens") is None:
        config = {**config, "pad_to_max_tokens": False}
    if not learned.tokens:
        _check_given(config.get("vocabulary"), safe_mode)
        return config
    is_integer = class_name == "IntegerLookup"
    tokens = {i: _token(token, is_integer) for i, token in learned.tokens.items()}
    if config.get("invert"):
        config = _inverse(config, tokens)
    special = special_tokens(class_name, config)
    vocabulary = _in_order(tokens, special)
    total = len(special) + len(vocabulary)
    if config.get("max_tokens") is not None and total > config["max_tokens"]:
        config = {**config, "max_tokens": total}  # 2.5 counted one less
    has_weights = output_mode(config) in TF_IDF
    weights = idf_weights(learned, total) if has_weights else None
    if None not in special:
        vocabulary = [*special, *vocabulary]
    elif has_weights:
        raise LegacyModelError("it has weights for an oov_token that is None.")
    return {**config, "vocabulary": vocabulary, "idf_weights": weights}


def _check_given(vocabulary: Any, safe_mode: bool) -> None:
    """Raise if the config itself gives no vocabulary that can be used."""
    if isinstance(vocabulary, str) and safe_mode:
        raise NothingLearnedError(
            f"its vocabulary was the file {vocabulary!r} of the machine that wrote the "
            f"model; if you trust it, and have that file, pass {hints.UNSAFE}"
        )
    if not vocabulary:
        raise NothingLearnedError(
            "the file holds no vocabulary: was the layer adapted before it was saved?"
        )


def _token(token: bytes | str | int, is_integer: bool) -> int | str:
    try:
        text = token.decode() if isinstance(token, bytes) else token
        return int(text) if is_integer else str(text)
    except (TypeError, ValueError) as error:
        raise LegacyModelError(f"the token {token!r}: {error}.") from error


def _inverse(config: Config, tokens: Mapping[int, int | str]) -> Config:
    """Return the config of an inverted layer, whose OOV had no index up to 2.5."""
    first = int(config["mask_token"] is not None)
    has_oov = tokens.get(first, config["oov_token"]) == config["oov_token"]
    return config if has_oov else {**config, "num_oov_indices": 0}


def _in_order(tokens: Mapping[int, int | str], special: Sequence[Any]) -> list[Any]:
    """Return the tokens after the special ones, in the order of their indices."""
    start = len(special)
    indices = sorted(index for index in tokens if index >= start)
    misplaced = [
        (index, token)
        for index, token in tokens.items()
        if index < start
        and (index < 0 or (special[index] is not None and token != special[index]))
    ]
    if misplaced or indices != list(range(start, start + len(indices))):
        raise LegacyModelError(
            f"its vocabulary does not follow the special tokens {special}: "
            f"{misplaced[:3] or indices[:3]}."
        )
    if not indices:
        raise NothingLearnedError("the file holds an empty vocabulary")
    return [tokens[index] for index in indices]


def idf_weights(learned: Vocabulary, size: int) -> list[float]:
    """Return the weights of the first `size` tokens; the others belong to no token."""
    weights = learned.weight("idf_weights", "idf")
    if weights is None or weights.ndim != 1 or len(weights) < size:
        raise LegacyModelError(
            f"corrupt: {size} tokens, with the idf_weights "
            f"{'missing' if weights is None else weights.shape}."
        )
    return list(weights[:size].tolist())


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
            config = lookup_arguments(cls.name, config, learned, is_safe)
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
    return (yield from classes.own_function(name, path))


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
        "idf_weights": idf_weights(learned, size),
    }


def _counted(learned: Vocabulary) -> int:
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
    """Return the boundaries of bins for `(values, how often each occurred)`."""
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
