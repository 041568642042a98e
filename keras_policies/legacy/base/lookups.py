"""Layers that look words up, and the files of their vocabularies."""

from collections.abc import Mapping
from typing import Any

from keras_policies.legacy.base.errors import LegacyModelError

LOOKUPS = "StringLookup", "IntegerLookup", "TextVectorization"
MAX_TOKENS = 2_000_000
MAX_VOCABULARY_BYTES = 128 * 1024 * 1024


def special_tokens(class_name: str, config: Mapping[str, Any]) -> list[Any]:
    """Return the tokens before a vocabulary: the mask, then those for unknown words.

    The config of the class, one of `LOOKUPS`, has the names of Keras 3.
    """
    given: Mapping[str, Any] = config
    if class_name == "TextVectorization":
        given = {"mask_token": "", "oov_token": "[UNK]", "num_oov_indices": 1}
    has_mask = given["mask_token"] is not None and output_mode(config) == "int"
    mask = [given["mask_token"]] if has_mask else []
    return mask + [given["oov_token"]] * given["num_oov_indices"]


def output_mode(config: Mapping[str, Any]) -> str:
    """Return what a lookup layer outputs: `"int"` where its config does not say."""
    return str(config.get("output_mode") or "int")


def lines(text: bytes) -> list[bytes]:
    r"""Return the lines of a vocabulary file, at most `MAX_TOKENS` ending in `\n`."""
    count = text.count(b"\n")
    if count > MAX_TOKENS:
        reason = f"{count} tokens, expected at most {MAX_TOKENS} in a vocabulary."
        raise LegacyModelError(reason)
    return text.split(b"\n")
