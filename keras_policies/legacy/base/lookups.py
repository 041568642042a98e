"""Layers that look words up, and the files of their vocabularies."""

from collections.abc import Mapping
from typing import Any

LOOKUPS = "StringLookup", "IntegerLookup", "TextVectorization"


def special_tokens(class_name: str, config: Mapping[str, Any]) -> list[Any]:
    """Return the tokens before a vocabulary: the mask, then those for unknown words.

    The config of the class, one of `LOOKUPS`, has the names of Keras 3.
    """
    settings: Mapping[str, Any] = config
    if class_name == "TextVectorization":
        settings = {"mask_token": "", "oov_token": "[UNK]", "num_oov_indices": 1}
    has_mask = settings["mask_token"] is not None and output_mode(config) == "int"
    mask = [settings["mask_token"]] if has_mask else []
    return mask + [settings["oov_token"]] * settings["num_oov_indices"]


def output_mode(config: Mapping[str, Any]) -> str:
    """Return what a lookup layer outputs: `"int"` where its config does not say."""
    return str(config.get("output_mode") or "int")
