"""Patterns of ops, as nested tuples: `("Mul", "x", ("Floor", "draw"))`."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

T = TypeVar("T")
# A name for a value, or an op and the patterns of its inputs.
Pattern: TypeAlias = "str | tuple[Pattern, ...]"
COMMUTATIVE = {"Add", "Mul"}
SAME = {"AddV2": "Add"}  # written by newer versions for the older op


def matches(
    pattern: Pattern, value: T, made_by: Callable[[T], tuple[str, Sequence[T]] | None]
) -> Iterator[dict[str, T]]:
    """Yield `{name in the pattern: value}` for each way in which a pattern matches.

    `made_by` returns the op that computes a value, with its inputs, or None. An op may
    have more inputs than the pattern names. Sums and products are tried with both
    orders of their inputs, and an Add also matches an AddV2.

    Example:
        >>> ops = {"s": ("Mul", "ab"), "a": ("Floor", "c")}
        >>> list(matches(("Mul", "x", ("Floor", "y")), "s", ops.get))
        [{'x': 'b', 'y': 'c'}]
    """
    if isinstance(pattern, str):
        yield {pattern: value}
        return
    op, inputs = made_by(value) or ("", ())
    expected, *patterns = pattern
    if SAME.get(op, op) != expected or len(inputs) < len(patterns):
        return
    for order in (inputs, inputs[::-1]) if expected in COMMUTATIVE else (inputs,):
        pairs = zip(patterns, order, strict=False)
        for parts in itertools.product(*(matches(*p, made_by) for p in pairs)):
            yield {name: each for part in parts for name, each in part.items()}
