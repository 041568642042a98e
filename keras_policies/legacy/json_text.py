"""Reads the JSON that tf.keras wrote: plain JSON, with tuples and shapes tagged."""

import json
import re

from keras_policies.legacy.errors import LegacyModelError

SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
MAX_JSON_BYTES = 256 * 1024 * 1024


def _untag(value):
    """Return the Python value of an object that tf.keras tagged (json_utils.py)."""
    tag = value.get("class_name")
    if tag == "__tuple__":
        return tuple(value.get("items", ()))
    if tag == "TensorShape":
        items = value.get("items")
        return None if items is None else tuple(items)
    if tag == "__ellipsis__":
        return Ellipsis
    return value


def _is_text(decoded):
    try:
        json.dumps(decoded, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return False
    return True


def decode(text, where):
    """Return the object in `text`, a str or bytes.

    Args:
        text: str or bytes of JSON.
        where: str, what it is, for the error.

    Raises:
        LegacyModelError: if it is no JSON object, too long or too deep.
    """
    if len(text) > MAX_JSON_BYTES:
        raise LegacyModelError(
            f"{where}: {len(text)} bytes of JSON are more than {MAX_JSON_BYTES}."
        )
    try:
        decoded = json.loads(text, object_hook=_untag)
    except (ValueError, RecursionError) as error:
        raise LegacyModelError(f"{where}: not readable as JSON: {error}.") from error
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if SURROGATE.search(text) and not _is_text(decoded):
        raise LegacyModelError(f"{where}: a name in it is no text (a lone surrogate).")
    if not isinstance(decoded, dict):
        raise LegacyModelError(
            f"{where}: expected a JSON object, found a {type(decoded).__name__}."
        )
    return decoded
