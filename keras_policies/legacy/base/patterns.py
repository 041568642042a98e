"""Patterns of ops, written as calls: `Mul(RealDiv(x, keep), Floor(draw))`."""

import ast
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
COMMUTATIVE = {"Add", "AddV2", "Mul"}


def matches(
    pattern: str, value: T, made_by: Callable[[T], tuple[str, Sequence[T]] | None]
) -> Iterator[dict[str, T]]:
    """Yield `{name in the pattern: value}` for each way in which a pattern matches.

    `made_by` returns the op that computes a value, with its inputs, or None. In a
    pattern, `|` separates alternative ops. An op may have more inputs than the pattern
    names. Sums and products are tried with both orders of their inputs.

    Example:
        >>> ops = {"s": ("Mul", "ab"), "a": ("Floor", "c")}
        >>> list(matches("Mul(x, (Floor|Rint)(y))", "s", ops.get))
        [{'x': 'b', 'y': 'c'}]
    """
    return _matches(_parsed(pattern), value, made_by)


@functools.cache
def _parsed(pattern: str) -> ast.expr:
    return ast.parse(pattern, mode="eval").body


def _matches(
    pattern: ast.expr, value: T, made_by: Callable[[T], tuple[str, Sequence[T]] | None]
) -> Iterator[dict[str, T]]:
    if not isinstance(pattern, ast.Call):
        yield {ast.unparse(pattern): value}
        return
    op, inputs = made_by(value) or ("", ())
    is_op = op in ast.unparse(pattern.func).split(" | ")
    if not is_op or len(inputs) < len(pattern.args):
        return
    for order in (inputs, inputs[::-1]) if op in COMMUTATIVE else (inputs,):
        pairs = zip(pattern.args, order, strict=False)
        for parts in itertools.product(*(_matches(*p, made_by) for p in pairs)):
            yield {name: each for part in parts for name, each in part.items()}
