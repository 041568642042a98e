"""Texts from files, such as names of layers, as they are shown in messages."""

import contextvars
import re
from collections.abc import Sequence

# Whether tables are in colour: a key of `terminal.COLORS`.
color = contextvars.ContextVar("color", default="auto")

# What a terminal obeys, or does not show: control characters but for tabs and line
# ends, marks that turn the direction of writing, and halves of a character.
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff"
    "\ud800-\udfff]"
)

LISTED = 50  # the most lines of a list in a message

# A word begins at \b: from the middle of a long one, each search would go to its end.
TRACER = re.compile(r"\b\w*Tracer\((\w+\[[\d, ]*\])\)")


def without_tracers(text: str) -> str:
    """Return a message of a backend that names tensors by their dtypes and shapes.

    Example:
        >>> without_tracers("input JitTracer(float32[8,12]) with name 'x'")
        "input float32[8,12] with name 'x'"
    """
    return TRACER.sub(r"\1", text)


def printable(text: str) -> str:
    """Return a text with escapes instead of control characters."""
    return CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


def one_line(text: str) -> str:
    """Return a text, such as a path, with escapes also for line ends and tabs."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def cut(lines: Sequence[str], most: int = LISTED) -> list[str]:
    """Return the first lines of a list, and how many more there are.

    Example:
        >>> cut(["a", "b", "c"], 1)
        ['a', 'and 2 more']
    """
    left = len(lines) - most
    return [*lines] if left <= 0 else [*lines[:most], f"and {left} more"]
