"""Layers that look words up, and the lines of a vocabulary file."""

from keras_policies.legacy.base.errors import LegacyModelError

LOOKUPS = "StringLookup", "IntegerLookup", "TextVectorization"
MAX_TOKENS = 2_000_000


def special_tokens(class_name, config):
    """Return the tokens ahead of a vocabulary: of the mask, and of what is not in it.

    Args:
        class_name: str, one of `LOOKUPS`.
        config: dict, by the names of Keras 3.
    """
    given = {"mask_token": "", "oov_token": "[UNK]", "num_oov_indices": 1}
    if class_name != "TextVectorization":
        given = config
    has_mask = given["mask_token"] is not None and output_mode(config) == "int"
    mask = [given["mask_token"]] if has_mask else []
    return mask + [given["oov_token"]] * given["num_oov_indices"]


def output_mode(config):
    """Return what a lookup layer gives: `"int"` where its config does not say."""
    return config.get("output_mode") or "int"


def lines(text, where):
    """Return the lines of a vocabulary file.

    Args:
        text: bytes.
        where: str, the file, for errors.
    """
    count = text.count(b"\n")
    if count > MAX_TOKENS:
        raise LegacyModelError(
            f"{where}: {count} tokens, expected at most {MAX_TOKENS} in a vocabulary."
        )
    return text.split(b"\n")
