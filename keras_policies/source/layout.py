"""Writes pieces of Python code, and splits lines as ruff does."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

WIDTH, INDENT = 88, 4
TEXT = r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
TOKENS = re.compile(rf"{TEXT}|[\[\](){{}},]")


def call(
    function: str, args: Iterable[str] = (), kwargs: Mapping[str, str] | None = None
) -> str:
    """Return the call of a function."""
    keywords = (f"{name}={value}" for name, value in (kwargs or {}).items())
    return f"{function}({', '.join([*args, *keywords])})"


def sequence(parts: Iterable[str], is_tuple: bool = False) -> str:
    """Return a list or a tuple."""
    items = [*parts]
    comma = "," * (len(items) == 1)
    return f"({', '.join(items)}{comma})" if is_tuple else f"[{', '.join(items)}]"


def mapping(items: Mapping[str, str]) -> str:
    """Return a dict."""
    return f"{{{', '.join(f'{literal(key)}: {v}' for key, v in items.items())}}}"


def literal(value: Any) -> str:
    """Return None, a bool, a number or a text as Python code, as ruff formats it."""
    text = repr(value)
    if isinstance(value, float):
        is_finite = value - value == 0
        short = re.sub(r"e([+-])0*", lambda sign: f"e{sign[1].strip('+')}", text)
        return short if is_finite else f'float("{text}")'
    if isinstance(value, str) and text[0] == "'" and '"' not in text:
        return f'"{text[1:-1]}"'
    return text


def laid_out(line: str) -> str:
    """Split a line into lines of at most 88 columns, as far as possible."""
    code = line.lstrip(" ")
    indent = len(line) - len(code)
    return line[:indent] + _split(code, indent)


def _split(code: str, indent: int, after: int = 0) -> str:
    """Split code at its longest brackets; keep `after` columns free at the end."""
    # East Asian characters take two columns.
    columns = sum(1 + (unicodedata.east_asian_width(each) in "WF") for each in code)
    groups = _brackets(code)
    if indent + columns + after <= WIDTH or not groups:
        return code
    start, end, parts = max(groups, key=lambda group: group[1] - group[0])
    margin = " " * (indent + INDENT)
    lines = (f"{margin}{_split(p, indent + INDENT, 1)},\n" for p in parts)
    head, tail = _split(code[:start], indent, 1), _split(code[end + 1 :], indent, 1)
    return f"{head}{code[start]}\n{''.join(lines)}{' ' * indent}{code[end]}{tail}"


def _brackets(code: str) -> list[tuple[int, int, list[str]]]:
    """Return the outermost brackets: start, end, and the parts between commas."""
    found, depth, start, begin, parts = [], 0, 0, 0, list[str]()
    for token in TOKENS.finditer(code):
        mark, at = token[0], token.start()
        if depth == 1 and mark in ")]},":
            parts += [code[begin:at].strip()] * (begin < at)
            begin = at + 1
        if mark in "([{":
            depth += 1
            if depth == 1:
                start, begin, parts = at, at + 1, []
        elif mark in ")]}":
            depth -= 1
            if depth == 0 and parts:
                found.append((start, at, parts))
    return found
