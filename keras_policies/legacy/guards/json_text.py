"""Decodes the JSON that tf.keras wrote: plain JSON, with tuples and shapes tagged."""

import json
import re
from collections.abc import Iterable
from typing import Any

from keras_policies.legacy.base.errors import LegacyModelError, LimitError
from keras_policies.legacy.base.model import Config

SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# Limits for one text, and for all in a file. A value takes up to 100 bytes of memory.
MAX_JSON_BYTES = 32 * 1024 * 1024
MAX_VALUES = 2_000_000
# Arguments of which Keras makes lists, before it asks for memory.
NUMBERS = {"num_oov_indices": 1_000_000, "num_thresholds": 100_000}


def _untag(value: Config) -> Any:
    """Return the Python value of an object that tf.keras tagged (json_utils.py)."""
    for key in NUMBERS.keys() & value.keys():
        number = value[key]
        if isinstance(number, int | float) and not -1 <= number <= NUMBERS[key]:
            raise LimitError(
                f"a config has {key}={number:.6g}, expected at most {NUMBERS[key]}."
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
            values += sum(map(text.count, b",[{"))  # bytes count a byte by its number
    if size > MAX_JSON_BYTES or values > MAX_VALUES:
        raise LegacyModelError(
            f"{part}: {size} bytes of JSON with {values} values, expected at most "
            f"{MAX_JSON_BYTES} with {MAX_VALUES}."
        )


def decode(text: str | bytes, part: str) -> Config:
    """Return the JSON object in a part of a file; refuse other, long and deep texts."""
    check_size([text], part)
    try:
        decoded = json.loads(text, object_hook=_untag)
    except LimitError:
        raise
    except (ValueError, RecursionError) as error:
        raise LegacyModelError(f"{part}: not readable as JSON: {error}.") from error
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if SURROGATE.search(text):
        try:
            json.dumps(decoded, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            reason = f"{part}: a name in it is no text (a lone surrogate)."
            raise LegacyModelError(reason) from None
    if not isinstance(decoded, dict):
        reason = f"{part}: expected a JSON object, found a {type(decoded).__name__}."
        raise LegacyModelError(reason)
    return decoded
