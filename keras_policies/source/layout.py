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
    """Expressions in brackets: on one line, or one a line if the line is too long.

    `one` follows a single expression on one line, `last` the last one of several lines.
    """

    brackets: str
    parts: tuple[Expression, ...]
    one: str = ""
    last: str = ","

    def __str__(self) -> str:
        comma = self.one if len(self.parts) == 1 else ""
        return f"{', '.join(map(flat, self.parts))}{comma}".join(self.brackets)


def flat(expression: Expression) -> str:
    """Return an expression on one line."""
    return "".join(map(str, expression))


def call(
    function: str | Expression,
    args: Iterable[Expression] = (),
    kwargs: Mapping[str, Expression] | None = None,
) -> Expression:
    """Return the call of a function."""
    keywords = ((f"{name}=", *value) for name, value in (kwargs or {}).items())
    before = (function,) if isinstance(function, str) else function
    return (*before, Group("()", (*args, *keywords)))


def sequence(parts: Iterable[Expression], is_tuple: bool = False) -> Expression:
    """Return a list or a tuple."""
    return (Group("()" if is_tuple else "[]", (*parts,), "," if is_tuple else ""),)


def mapping(items: Mapping[str, Expression]) -> Expression:
    """Return a dict."""
    pairs = ((f"{literal(key)}: ", *value) for key, value in items.items())
    return (Group("{}", (*pairs,)),)


def literal(value: Any) -> str:
    """Return None, a truth value, a number or a text as Python, as ruff writes it."""
    text = repr(value)
    if isinstance(value, float):
        is_finite = value - value == 0
        short = re.sub(r"e([+-])0*", lambda sign: f"e{sign[1].strip('+')}", text)
        return short if is_finite else f'float("{text}")'
    if isinstance(value, str) and text[0] == "'" and '"' not in text:
        return f'"{text[1:-1]}"'
    return text


def laid_out(expression: Expression, indent: int, after: int = 0) -> str:
    """Return an expression in lines of 88 columns, but for what cannot be split.

    The first line is indented already; `after` columns stay free at its end.
    """
    groups = [n for n, part in enumerate(expression) if getattr(part, "parts", ())]
    text = flat(expression)
    # Characters of East Asia take two columns.
    columns = sum(1 + (unicodedata.east_asian_width(each) in "WF") for each in text)
    if indent + columns + after <= WIDTH or not groups:
        return text
    at = max(groups, key=lambda n: len(str(expression[n])))
    group, inner = expression[at], indent + INDENT
    assert isinstance(group, Group)
    before = laid_out(expression[:at], indent, 1)
    lines = (f"{' ' * inner}{laid_out(p, inner, 1)}{group.last}\n" for p in group.parts)
    opening, closing = group.brackets[0], group.brackets[1]
    rest = laid_out(expression[at + 1 :], indent, after + 1)
    return f"{before}{opening}\n{''.join(lines)}{' ' * indent}{closing}{rest}"
