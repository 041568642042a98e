"""Decodes texts in a file: vocabularies, and JSON in which tf.keras tagged tuples."""

import json
import re
from collections.abc import Iterable
from typing import Any

from keras_policies._common.types import Config
from keras_policies.legacy.base.errors import LegacyModelError, LimitError
from keras_policies.legacy.guards import limits

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def untagged(value: Config) -> Any:
    """Return the Python value of an object that tf.keras tagged (json_utils.py)."""
    for key in limits.JSON_NUMBERS.keys() & value.keys():
        number, most = value[key], limits.JSON_NUMBERS[key]
        if isinstance(number, int | float) and not -1 <= number <= most:
            raise LimitError(
                f"a config has {key}={number:.6g}, expected at most {most}."
            )
    tag = value.get("class_name")
    if tag == "__tuple__":
        return tuple(value.get("items", ()))
    if tag == "TensorShape":
        items = value.get("items")
        return None if items is None else tuple(items)
    if tag == "__ellipsis__":
        return Ellipsis
    return value


def check_size(texts: Iterable[str | bytes], part: str) -> None:
    """Raise if the texts in a part of a file take too much memory as Python values."""
    size = values = 0
    for text in texts:
        size += len(text)
        if isinstance(text, str):
            values += sum(map(text.count, ",[{"))
        else:
            values += sum(map(text.count, b",[{"))  # items of bytes are ints
    if size > limits.JSON_BYTES or values > limits.JSON_VALUES:
        raise LegacyModelError(
            f"{part}: {size} bytes of JSON with {values} values, expected at most "
            f"{limits.JSON_BYTES} with {limits.JSON_VALUES}.",
            code="KP201",
        )


def decode(text: str | bytes, part: str) -> Config:
    """Return the JSON object in a part of a file; refuse texts too long or too deep."""
    check_size([text], part)
    try:
        decoded = json.loads(text, object_hook=untagged)
    except LimitError:
        raise
    except (ValueError, RecursionError) as error:
        raise LegacyModelError(f"{part}: not readable as JSON: {error}.") from error
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if SURROGATE.search(text):
        check_characters(json.dumps(decoded, ensure_ascii=False, default=str), part)
    return mapping(decoded, part, "a JSON object")


def check_characters(text: str, part: str) -> None:
    """Raise if a text has lone surrogates, which cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        reason = f"{part}: a name in it is not a text (a lone surrogate)."
        raise LegacyModelError(reason) from None


def mapping(decoded: Any, part: str, expected: str) -> Config:
    """Return a decoded value if it is a dict; otherwise raise, naming `expected`."""
    if not isinstance(decoded, dict):
        found = type(decoded).__name__
        raise LegacyModelError(f"{part}: expected {expected}, found a {found}.")
    return decoded


def vocabulary(text: bytes) -> list[bytes]:
    r"""Return the tokens of a vocabulary file, one per line; lines end in `\n`."""
    count = text.count(b"\n")
    if count > limits.VOCABULARY_TOKENS:
        raise LegacyModelError(
            f"{count} tokens, expected at most {limits.VOCABULARY_TOKENS} in a "
            "vocabulary.",
            code="KP201",
        )
    return text.split(b"\n")
