"""Recognizes the Python that compiled the code of a Lambda layer.

tf.keras wrote `marshal.dumps(function.__code__)` in base64 and did not record the
version. The layout of a marshalled code object changed with Python 3.8 and 3.11; no
release of tf.keras up to 2.15 ran on a later Python than 3.11.

Source: CPython, Python/marshal.c.
"""

import base64
import dis
import marshal
import sys
import types
from typing import Any

from keras_policies.legacy.base.errors import LegacyModelError

CODE, STRING, REF = ord("c"), ord("s"), 0x80
INTEGER = 4
# Instructions that begin every function of Python 3.11.
RESUME, COPY_FREE_VARS, MAKE_CELL = 151, 149, 135
UP_TO_3_7, FROM_3_8, FROM_3_11 = "3.7 or earlier", "3.8 to 3.10", "3.11"


def written_by(code: bytes) -> str:
    """Return the versions that can have compiled code, or raise ValueError if none."""
    if len(code) > 1 + 7 * INTEGER and code[0] & ~REF == CODE:
        for integers, versions in ((5, None), (6, FROM_3_8)):
            start = 1 + integers * INTEGER
            if code[start] & ~REF == STRING:
                return versions or _by_first_instruction(code[start + 1 + INTEGER :])
    raise ValueError(f"expected a marshalled code object, found {code[:8]!r}")


def _by_first_instruction(instructions: bytes) -> str:
    first = instructions[0:6:2]
    known = RESUME, COPY_FREE_VARS, MAKE_CELL
    return FROM_3_11 if RESUME in first and first[0] in known else UP_TO_3_7


def versions(text: Any) -> str | None:
    """Return the versions of Python that can have compiled code in base64, or None."""
    try:
        return written_by(base64.b64decode(text.encode("ascii", "ignore")))
    except (AttributeError, ValueError):
        return None


def runs_here(versions: str | None) -> bool:
    """Return whether the running Python can have compiled code of some versions."""
    here = sys.version_info[:2]
    return (versions, here) in ((FROM_3_11, (3, 11)), (FROM_3_8, (3, 10)))


def load(text: Any) -> types.CodeType:
    """Return the code object in base64, or raise LegacyModelError if it cannot run."""
    try:
        code = base64.b64decode(text.encode("ascii", "ignore"))
        compiled_by = written_by(code)
        found = marshal.loads(code) if runs_here(compiled_by) else None
    except (AttributeError, EOFError, TypeError, ValueError) as error:
        raise LegacyModelError(f"corrupt: its code: {error}.") from error
    if not isinstance(found, types.CodeType) or not _is_of_this_python(found):
        here = ".".join(map(str, sys.version_info[:2]))
        raise LegacyModelError(
            f"this Lambda layer holds code that Python {compiled_by} compiled, which "
            f"this Python {here} cannot run."
        )
    return found


def _is_of_this_python(code: types.CodeType) -> bool:
    """Return whether this Python compiled it; 3.10 has line tables of its own."""
    if sys.version_info[:2] != (3, 10):
        return True
    return sum(code.co_linetable[::2]) == len(code.co_code)


def global_names(code: types.CodeType) -> list[str]:
    """Return the names that code looks up outside of itself, sorted."""
    inner = [item for item in code.co_consts if isinstance(item, types.CodeType)]
    found = {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    return sorted(found.union(*map(global_names, inner)))
