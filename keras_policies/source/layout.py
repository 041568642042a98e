"""Python expressions, laid out in lines as ruff formats them."""

import dataclasses
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, Union

WIDTH, INDENT = 88, 4

# Texts and groups that stand side by side, as in `layers.Dense` `(3)` `(x)`.
Expression: TypeAlias = tuple[Union[str, "Group"], ...]


@dataclasses.dataclass(frozen=True)
class Group:
    """Expressions in brackets: on one line, or one a line if the line is too long."""

    opening: str
    parts: tuple[Expression, ...]
    closing: str
    comma: str = ","  # after the last one of several lines

    def __str__(self) -> str:
        is_tuple_of_one = self.opening == "(" and len(self.parts) == 1
        comma = "," if is_tuple_of_one and self.comma else ""
        inside = ", ".join(map(flat, self.parts))
        return f"{self.opening}{inside}{comma}{self.closing}"


def flat(expression: Expression) -> str:
    """Return an expression on one line."""
    return "".join(map(str, expression))


def call(
    function: Expression, args: Iterable[Expression], kwargs: Mapping[str, Expression]
) -> Expression:
    """Return the call of a function."""
    keywords = ((f"{name}=", *value) for name, value in kwargs.items())
    return (*function, Group("(", (*args, *keywords), ")", comma=""))


def sequence(parts: Iterable[Expression], brackets: str = "[]") -> Expression:
    """Return a list, or a tuple if `brackets` are `"()"`."""
    return (Group(brackets[0], tuple(parts), brackets[1]),)


def mapping(items: Mapping[str, Expression]) -> Expression:
    """Return a dict."""
    pairs = ((f"{literal(key)}: ", *value) for key, value in items.items())
    return (Group("{", tuple(pairs), "}"),)


def literal(value: Any) -> str:
    """Return None, a truth value, a number or a text as Python, as ruff writes it."""
    if isinstance(value, float) and value - value != 0:  # NaN or infinite
        return f'float("{value}")'
    text = repr(value)
    if isinstance(value, float):
        return re.sub(r"e([+-])0*", lambda sign: f"e{sign[1].strip('+')}", text)
    if isinstance(value, str) and text[0] == "'" and '"' not in text:
        return f'"{text[1:-1]}"'
    return text


def laid_out(expression: Expression, indent: int, after: int = 0) -> str:
    """Return an expression in lines no wider than 88, where it can be split.

    Args:
        expression: what to write.
        indent: int, the columns before each line; the first line has them already.
        after: int, the columns to leave free at the end.
    """
    groups = [n for n, part in enumerate(expression) if getattr(part, "parts", ())]
    text = flat(expression)
    if indent + _columns(text) + after <= WIDTH or not groups:
        return text
    at = max(groups, key=lambda n: len(str(expression[n])))
    group = expression[at]
    assert isinstance(group, Group)
    inner, comma = indent + INDENT, group.comma or ","
    if group.opening == "[" and not group.comma:  # a key: a comma makes it a tuple
        comma = ""
    lines = (" " * inner + laid_out(p, inner, 1) + comma for p in group.parts)
    rest = laid_out(expression[at + 1 :], indent, after + 1)
    inside = "\n".join(lines)
    opened = f"{flat(expression[:at])}{group.opening}\n{inside}\n"
    return f"{opened}{' ' * indent}{group.closing}{rest}"


def _columns(text: str) -> int:
    """Return the columns that a text takes; characters of East Asia take two."""
    return sum(1 + (unicodedata.east_asian_width(each) in "WF") for each in text)
