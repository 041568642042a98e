"""The code of Lambda layers as text: decoding it, and running it where it is trusted.

Keras wrote `marshal.dumps(function.__code__)`, in base64 since 2.1, as a text with a
character for each byte before. Source: keras/utils/generic_utils.py, `func_dump`.
"""

import base64
import binascii
import dis
import marshal
import sys
import types
from typing import Any

from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.bytecode import marshalled
from keras_policies.legacy.bytecode.values import VERSIONS, Code

CODE = b"c\xe3"  # the first byte of a marshalled code object, one of these


def read(text: Any) -> Code:
    """Return the code in a text, or raise LegacyModelError if it holds none."""
    return marshalled.read(_bytes(text))


def _bytes(text: Any) -> bytes:
    if not isinstance(text, str) or not text:
        raise LegacyModelError(
            f"corrupt: its code: expected a text, found {str(text)[:80]!r}."
        )
    if ord(text[0]) in CODE and "\0" in text:  # base64 of code begins with "4" or "Y"
        try:
            return text.encode("raw_unicode_escape")
        except UnicodeError as error:
            raise LegacyModelError("corrupt: its code is no text.") from error
    try:
        return base64.b64decode(text.encode("ascii", "ignore"))
    except binascii.Error as error:
        raise LegacyModelError(f"corrupt: its code: {error}.") from error


def runs_here(python: str) -> bool:
    """Return whether the running Python compiled code, by a key in `VERSIONS`."""
    return python in ("3.10", "3.11") and python == _here()


def _here() -> str:
    return ".".join(map(str, sys.version_info[:2]))


def load(text: Any) -> types.CodeType:
    """Return the code object in a text, or raise LegacyModelError if it cannot run."""
    python = read(text).python
    if not runs_here(python):
        raise LegacyModelError(
            f"this Lambda layer holds code that Python {VERSIONS[python]} compiled, "
            f"which this Python {_here()} cannot run."
        )
    try:
        code = marshal.loads(_bytes(text))
    except (EOFError, TypeError, ValueError) as error:
        raise LegacyModelError(f"corrupt: its code: {error}.") from error
    if not isinstance(code, types.CodeType):
        raise LegacyModelError("corrupt: its code is none.")
    return code


def global_names(code: types.CodeType) -> list[str]:
    """Return the names that code looks up outside of itself, sorted."""
    inner = [item for item in code.co_consts if isinstance(item, types.CodeType)]
    names = {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    return sorted(names.union(*map(global_names, inner)))
