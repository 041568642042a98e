"""Gives a lookup layer of Keras 3 the vocabulary that its file holds.

Sources: keras/layers/preprocessing/{index_lookup,text_vectorization}.py of TensorFlow
2.4, Keras 2.10 and 2.15, Keras 3.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_policies.annotations import Config
from keras_policies.legacy.base.configs import output_mode, special_tokens
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import Vocabulary

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
            "model; if you trust it, and have that file, pass safe_mode=False "
            "(--unsafe)"
        )
    if not vocabulary:
        raise NothingLearnedError(
            "the file holds no vocabulary: was the layer adapted before it was saved?"
        )


def _token(token: bytes | str | int, is_integer: bool) -> int | str:
    """Return a token as the config of Keras 3 has it."""
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
    """Return the inverse document frequencies of `size` tokens, with the special ones.

    Weights after those belong to indices that no token has.
    """
    weights = learned.weight("idf_weights", "idf")
    if weights is None or weights.ndim != 1 or len(weights) < size:
        raise LegacyModelError(
            f"corrupt: {size} tokens, with the idf_weights "
            f"{'missing' if weights is None else weights.shape}."
        )
    return list(weights[:size].tolist())
