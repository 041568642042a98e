"""StringLookup, TextVectorization and Hashing in numpy, on arrays of bytes.

Their arguments are those of Keras 3, from a model or from JSON.

Sources: index_lookup.py, text_vectorization.py and hashing.py of TensorFlow 2.4, Keras
2.9, 2.15 and 3.
"""

import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from keras_policies._common.types import Config
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.configs import special_tokens
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import limits
from keras_policies.legacy.texts import hashes

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


PUNCTUATION = string.punctuation.encode()
NOT_COUNTED = -1  # the index of a mask where indices are counted
Shape: TypeAlias = tuple[int | None, ...]
Index: TypeAlias = Callable[[bytes], int]


class TextLayer:
    """A layer that converts texts to numbers.

    `class_name` is a key of `arguments.ARGUMENTS`, and `config` has its arguments in
    Keras 3.
    """

    def __init__(self, name: str, class_name: str, config: Mapping[str, Any]) -> None:
        with located(layer=name, code="KP306"):
            self.name, self.class_name = name, class_name
            self.config = checked(class_name, config)
            self._mode: str = self.config["output_mode"]
            is_hashing = class_name == "Hashing"
            self._index, self._size = self._hashing() if is_hashing else self._lookup()
            if self._mode != "int" and self._size > limits.TEXT_COUNTS:
                raise LegacyModelError(
                    f"it counts {self._size} tokens, expected at most "
                    f"{limits.TEXT_COUNTS}."
                )
            if self._mode == "tf_idf":
                self._weights = self._frequencies()

    def __reduce__(self) -> Any:
        return TextLayer, (self.name, self.class_name, self.config)

    def output(self, shape: Shape) -> tuple[Shape, str]:
        """Return the shape and the dtype of its output for an input shape."""
        is_split = self.config.get("split") is not None
        if is_split or self._mode == "one_hot":
            shape = (*_without_last(shape), None)
        if self._mode != "int":
            return (*shape[:-1], self._size), "float32"
        length = self.config.get("output_sequence_length")
        return (shape if length is None else (*shape[:-1], length)), "int64"

    def __call__(self, texts: Array) -> Array:
        """Return the numbers for an array of bytes."""
        is_vectorization = self.class_name == "TextVectorization"
        is_split = self.config.get("split") is not None
        in_rows = is_vectorization or self._mode in COUNTS
        is_wrong = texts.ndim < 2 if in_rows else False
        if is_split:
            is_wrong = texts.ndim > 1 and texts.shape[-1] != 1
        if is_wrong:
            raise ValueError(
                f"the layer {self.name!r} takes rows of "
                f"{'one text' if is_split else 'texts'}, received the shape "
                f"{texts.shape}."
            )
        if is_split or self._mode == "one_hot":
            texts = texts.reshape(*_without_last(texts.shape), 1)
        *leading, width = texts.shape or (1,)
        flat = texts.reshape(-1).tolist()
        rows: list[Sequence[bytes]] = [
            flat[start * width : (start + 1) * width]
            for start in range(int(np.prod(leading)))
        ]
        if is_vectorization:
            rows = [[*self._tokens(row)] for row in rows]
        indices = [[*map(self._index, row)] for row in rows]
        if self._mode != "int":
            return self._counted(indices).reshape(*leading, self._size)
        length = self.config.get("output_sequence_length")
        if length is None:
            length = max(map(len, indices), default=0 if is_vectorization else width)
        padded = [row[:length] + [0] * (length - len(row)) for row in indices]
        numbers = np.array(padded, "int64")
        return numbers.reshape((*leading, length) if texts.ndim else ())

    def _lookup(self) -> tuple[Index, int]:
        """Return a function that maps texts to indices, and the number of indices."""
        config, vocabulary = self.config, [*self.config["vocabulary"]]
        special = special_tokens(self.class_name, config)
        start, has_special = len(special), vocabulary[: len(special)] == special
        tokens = vocabulary[start:] if has_special else vocabulary
        mask: str | None = config.get("mask_token", "")  # "" for TextVectorization
        others: int = config.get("num_oov_indices", 1)
        if len({*tokens}) < len(tokens) or mask in tokens:
            raise LegacyModelError("its vocabulary has a token twice.")
        table = {token.encode(): index for index, token in enumerate(tokens, start)}
        if mask is not None:
            table[mask.encode()] = 0 if self._mode == "int" else NOT_COUNTED

        def index(text: bytes) -> int:
            if text in table:
                return table[text]
            if not others:
                raise ValueError(
                    f"the layer {self.name!r} has no index for the text {text!r}."
                )
            number = hashes.farm(text) % others if others > 1 else 0
            return start - others + number

        size = start + len(tokens)
        if config["max_tokens"] is not None and size > config["max_tokens"]:
            raise LegacyModelError(f"it has {size} tokens, more than its max_tokens.")
        is_padded = config["pad_to_max_tokens"] and config["max_tokens"] is not None
        return index, config["max_tokens"] if is_padded else size

    def _hashing(self) -> tuple[Index, int]:
        """Return a function that maps texts to bins, and the number of bins."""
        salt, bins = self.config["salt"], self.config["num_bins"]
        value = self.config["mask_value"] if bins > 1 else None
        mask, first = (None, 0) if value is None else (value.encode(), 1)
        low, high = (salt, salt) if isinstance(salt, int) else salt or (0, 0)

        def index(text: bytes) -> int:
            if text == mask:
                return 0
            is_fast = salt is None
            number = hashes.farm(text) if is_fast else hashes.sip(text, (low, high))
            return int(number % (bins - first) + first)

        return index, bins

    def _tokens(self, row: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the n-grams of a row of texts, after splitting if the layer splits."""
        how, split, ngrams = map(self.config.get, ("standardize", "split", "ngrams"))
        if how in ("lower", BOTH):
            row = [text.lower() for text in row]  # only ASCII, as tf.strings.lower does
        if how in ("strip_punctuation", BOTH):
            row = [text.translate(None, PUNCTUATION) for text in row]
        if split == "whitespace":
            row = row[0].split()
        elif split == "character":
            row = [letter.encode() for letter in row[0].decode("utf-8", "replace")]
        widths = range(1, ngrams + 1) if isinstance(ngrams, int) else ngrams
        for width in widths or (1,):
            for start in range(len(row) - width + 1):
                yield b" ".join(row[start : start + width])

    def _counted(self, rows: Sequence[Sequence[int]]) -> Array:
        counts = np.zeros((len(rows), self._size), "float32")
        for number, row in enumerate(rows):
            kept = [index for index in row if 0 <= index < self._size]
            np.add.at(counts[number], kept, 1)
        if self._mode == "count":
            return counts
        return counts * self._weights if self._mode == "tf_idf" else counts.clip(max=1)

    def _frequencies(self) -> Array:
        """Return the weight of each index; indices without one get the mean."""
        weights = np.array(self.config["idf_weights"] or (), "float64")
        if weights.size != len(self.config["vocabulary"]):
            raise LegacyModelError(
                f"corrupt: {len(self.config['vocabulary'])} tokens, with "
                f"{weights.size} idf_weights."
            )
        special = special_tokens(self.class_name, self.config)
        if [*self.config["vocabulary"][: len(special)]] != special:
            mean = np.full(len(special), weights.mean())
            weights = np.concatenate([mean, weights])
        return np.pad(weights, (0, self._size - weights.size)).astype("float32")


def _without_last(shape: Any) -> Any:
    """Return a shape without its last axis, if that is 1 and not the only axis."""
    return shape[:-1] if len(shape) > 1 and shape[-1] == 1 else shape
