"""Reads the JSON that tf.keras wrote: plain JSON, with tuples and shapes tagged."""

import json
import re

from keras_policies.legacy.base.errors import LegacyModelError

SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# Of one text, or of all in a file. A value takes a hundred bytes of memory at most.
MAX_JSON_BYTES = 32 * 1024 * 1024
MAX_VALUES = 2_000_000


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


def check_size(texts, where):
    """Raise if the texts take too much memory as Python values.

    Args:
        texts: iterable of str or bytes.
        where: str or path, for the error.
    """
    size = values = 0
    for text in texts:
        size += len(text)
        marks = (",", "[", "{") if isinstance(text, str) else (b",", b"[", b"{")
        values += sum(map(text.count, marks))
    if size > MAX_JSON_BYTES or values > MAX_VALUES:
        raise LegacyModelError(
            f"{where}: {size} bytes of JSON with {values} values, expected at most "
            f"{MAX_JSON_BYTES} with {MAX_VALUES}."
        )


def decode(text, where):
    """Return the object in `text`, a str or bytes.

    Args:
        text: str or bytes of JSON.
        where: str, what it is, for the error.

    Raises:
        LegacyModelError: if it is no JSON object, too long or too deep.
    """
    check_size([text], where)
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
