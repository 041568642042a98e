"""Symbolic dimensions: integer polynomials in the lengths of axes.

A polynomial is `{monomial: coefficient}`; a monomial is a sorted tuple of atoms: the
length of an axis, or a floor quotient, maximum or minimum of two dimensions. This form
is canonical, so equality decides: `B * 20 // 20 == B`. A polynomial without atoms is an
`int`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from keras_policies._common.types import Tensor
from keras_policies.legacy.guards import budget, limits

BATCH = "batch"


class UndecidedError(ValueError):
    """A comparison of two dimensions that depends on the model's input."""

    def __init__(self, one: DimLike, relation: str, other: DimLike) -> None:
        comparison = f"{one} {relation} {other}"
        super().__init__(f"whether {comparison} depends on the model's input")


@dataclasses.dataclass(frozen=True)
class AxisLength:
    """The length of an axis of a tensor, at least 1.

    All batch axes of the model are one atom, with the key `BATCH`. The key of an axis
    that several others are broadcast to is the set of their keys.
    """

    key: str | tuple[int, int] | frozenset[Any]
    tensor: Tensor = dataclasses.field(compare=False, repr=False)
    axis: int = dataclasses.field(compare=False, repr=False)
    low = 1
    depth = 0
    parts = 1

    @functools.cached_property
    def text(self) -> str:
        """str, names the axis; the file gave the tensor its name."""
        if isinstance(self.key, str):
            return self.key[: limits.TOLD_NAME]
        return f"{self.tensor.name[: limits.TOLD_NAME]}.shape[{self.axis}]"

    def evaluate(self, lengths: Mapping[Any, int]) -> int:
        """Return the length, from the lengths of axes by key."""
        return lengths[self.key]


# Kind of a `Compound` -> its function.
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "//": operator.floordiv,
    "max": max,
    "min": min,
}


@dataclasses.dataclass(frozen=True)
class Compound:
    """An atom made of two dimensions: their floor quotient, maximum or minimum."""

    kind: str  # a key of `FUNCTIONS`
    operands: tuple[DimLike, DimLike]

    @functools.cached_property
    def depth(self) -> int:
        """int, how deep atoms are nested."""
        return 1 + max(map(depth, self.operands))

    @functools.cached_property
    def parts(self) -> int:
        """int, how many numbers and axes are in its text."""
        return sum(map(parts, self.operands))

    @functools.cached_property
    def low(self) -> float:
        """int or -inf, a lower bound."""
        lows = [bounds(operand)[0] for operand in self.operands]
        if self.kind == "//":
            return -math.inf if lows[1] < 1 else min(lows[0], 0)
        return float(FUNCTIONS[self.kind](lows))

    @functools.cached_property
    def text(self) -> str:
        """str, the division, or the call of the function."""
        one, other = self.operands
        is_call = self.kind != "//"
        return f"{self.kind}({one}, {other})" if is_call else f"(({one}) // ({other}))"

    def evaluate(self, lengths: Mapping[Any, int]) -> int:
        """Return the number, from the lengths of axes by key."""
        return int(FUNCTIONS[self.kind](*(evaluate(x, lengths) for x in self.operands)))


Atom: TypeAlias = AxisLength | Compound
Monomial: TypeAlias = tuple[Atom, ...]


class Dim:
    """A dimension that is known only when the model runs.

    `==` compares polynomials: whether two dimensions are equal for all inputs. `<`,
    `<=`, `>` and `>=` raise `UndecidedError` if it depends on the input; all axes are
    assumed to be not empty.

    Example:
        >>> size = Dim({(AxisLength("batch", tensor=None, axis=0),): 1})
        >>> size * 20 // 20 == size, size + 1 > size
        (True, True)
    """

    __slots__ = ("_hash", "_text", "parts", "terms")
    __array_ufunc__ = None  # numpy uses the operators below

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = dict(terms)
        self.parts = _parts(self.terms)
        self._hash = hash(frozenset(self.terms.items()))
        self._text = ""

    def __add__(self, other: Any) -> Any:
        if not is_integer(other):
            return NotImplemented
        terms = dict(self.terms)
        for monomial, count in terms_of(other).items():
            terms[monomial] = terms.get(monomial, 0) + count
        return _simplified(terms)

    def __mul__(self, other: Any) -> Any:
        if not is_integer(other):
            return NotImplemented
        terms: dict[Monomial, int] = {}
        others = terms_of(other)
        atoms = len(others) * self.parts + len(self.terms) * parts(other)
        budget.work(budget.STEP * atoms)
        for one, count in self.terms.items():
            for two, times in others.items():
                monomial = tuple(sorted(one + two, key=_rank))
                terms[monomial] = terms.get(monomial, 0) + count * times
        return _simplified(terms)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Any:
        return self * -1

    def __sub__(self, other: Any) -> Any:
        return self + -other if is_integer(other) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return -self + other if is_integer(other) else NotImplemented

    def __floordiv__(self, other: Any) -> Any:
        return quotient(self, other) if is_integer(other) else NotImplemented

    def __rfloordiv__(self, other: Any) -> Any:
        return quotient(other, self) if is_integer(other) else NotImplemented

    def __mod__(self, other: Any) -> Any:
        return self - self // other * other if is_integer(other) else NotImplemented

    def __rmod__(self, other: Any) -> Any:
        return other - other // self * self if is_integer(other) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __bool__(self) -> bool:
        return not_equal(self, 0)

    def __lt__(self, other: Any) -> bool:
        return _decided(self, "<", other, lambda low, high: (high < 0, low >= 0))

    def __le__(self, other: Any) -> bool:
        return _decided(self, "<=", other, lambda low, high: (high <= 0, low > 0))

    def __gt__(self, other: Any) -> bool:
        return _decided(self, ">", other, lambda low, high: (low > 0, high <= 0))

    def __ge__(self, other: Any) -> bool:
        return _decided(self, ">=", other, lambda low, high: (low >= 0, high < 0))

    def __repr__(self) -> str:
        if not self._text:
            terms = sorted(self.terms.items(), key=_order, reverse=True)
            factors = (
                [str(n)] * (n != 1 or not m) + [atom.text for atom in m]
                for m, n in terms
            )
            self._text = " + ".join(map("*".join, factors))
        return self._text


DimLike: TypeAlias = int | Dim


def is_integer(value: object) -> bool:
    """Return whether a value is a dimension or a whole number."""
    return isinstance(value, Dim | int | np.integer) and not isinstance(value, bool)


def terms_of(value: Any) -> Mapping[Monomial, int]:
    """Return the terms of a dimension or of a number."""
    return value.terms if isinstance(value, Dim) else {(): operator.index(value)}


def _rank(atom: Atom) -> tuple[str, int]:
    return atom.text, hash(atom)  # two axes may have one name


def _order(term: tuple[Monomial, int]) -> tuple[int, list[tuple[str, int]]]:
    return len(term[0]), [*map(_rank, term[0])]


def _parts(terms: Mapping[Monomial, int]) -> int:
    return sum(1 + sum(atom.parts for atom in monomial) for monomial in terms)


def parts(value: DimLike) -> int:
    """Return how many numbers and axes are in the text of a dimension."""
    return value.parts if isinstance(value, Dim) else 1


def _simplified(terms: Mapping[Monomial, int]) -> DimLike:
    """Return the dimension, or raise ValueError if it exceeds the limits.

    Nested atoms that share others double in size with each level when written out, and
    the cost of each operation grows with the number of parts.
    """
    nonzero = {monomial: count for monomial, count in terms.items() if count}
    budget.work(budget.ITEM * _parts(nonzero))
    if len(nonzero) > limits.DIM_TERMS:
        raise ValueError(f"a size that is a sum of more than {limits.DIM_TERMS} terms")
    if _parts(nonzero) > limits.DIM_PARTS:
        raise ValueError(f"a size of more than {limits.DIM_PARTS} numbers and axes")
    if any(abs(count) > limits.DIM_NUMBER for count in nonzero.values()):
        raise ValueError(f"a size with a number above {limits.DIM_NUMBER}")
    return Dim(nonzero) if nonzero.keys() - {()} else nonzero.get((), 0)


def depth(value: DimLike) -> int:
    """Return how deep the atoms of a dimension are nested."""
    return max((atom.depth for m in terms_of(value) for atom in m), default=0)


def _of_atom(kind: str, one: DimLike, other: DimLike) -> DimLike:
    atom = Compound(kind, (one, other))
    if atom.depth > limits.DIM_DEPTH:
        reason = f"{limits.DIM_DEPTH} quotients or bounds in each other"
        raise ValueError(f"a size of more than {reason}")
    return _simplified({(atom,): 1})


def bounds(value: DimLike) -> tuple[float, float]:
    """Return a lower and an upper bound, infinite where none is known."""
    low = high = 0.0
    for monomial, count in terms_of(value).items():
        if any(atom.low < 0 for atom in monomial):
            return -math.inf, math.inf
        least = count * math.prod((atom.low for atom in monomial), start=1.0)
        ends = least, count * math.inf if monomial else least
        low, high = low + min(ends), high + max(ends)
    return low, high


def _decided(
    one: Dim,
    relation: str,
    other: Any,
    rule: Callable[[float, float], tuple[bool, bool]],
) -> bool:
    if not is_integer(other):
        raise TypeError(f"{one} {relation} {other!r}: expected a whole number")
    is_true, is_false = rule(*bounds(one - other))
    if not is_true and not is_false:
        raise UndecidedError(one, relation, other)
    return is_true


def not_equal(one: DimLike, other: DimLike) -> bool:
    """Return whether two dimensions differ; raise `UndecidedError` if inputs decide."""
    if one == other:
        return False
    low, high = bounds(one - other)
    if low <= 0 <= high:
        raise UndecidedError(one, "!=", other)
    return True


def quotient(dividend: DimLike, divisor: DimLike) -> DimLike:
    """Return `dividend // divisor`, rounded down as in Python.

    Terms without a remainder are divided exactly:
    `(20*B + T + 45) // 20 == B + 2 + (T + 5) // 20`.
    """
    if divisor == 0:
        raise ValueError(f"{dividend} divided by 0")
    if isinstance(divisor, int) and divisor < 0:
        dividend, divisor = -dividend, -divisor
    whole, rest = _divided(dividend, divisor)
    if isinstance(divisor, int):
        constant = terms_of(rest).get((), 0) // divisor
        whole, rest = whole + constant, rest - constant * divisor
    if rest == 0 or (isinstance(rest, int) and isinstance(divisor, int)):
        return whole
    if isinstance(divisor, int):
        _, factor = min((t for t in terms_of(rest).items() if t[0]), key=_order)
        if factor < 0:  # -(-T // 8) is (T + 7) // 8
            return whole - quotient(divisor - 1 - rest, divisor)
    return whole + _of_atom("//", rest, divisor)


def _divided(dividend: DimLike, divisor: DimLike) -> tuple[DimLike, DimLike]:
    """Return the exact quotient of some terms, and the rest."""
    budget.work(budget.ITEM * parts(dividend) * parts(divisor))
    order = functools.partial(sorted, key=_order, reverse=True)
    (atoms, count), *others = order(terms_of(divisor).items())
    whole: DimLike = 0
    rest = dividend
    for monomial, _ in order(terms_of(dividend).items()):
        times = terms_of(rest).get(monomial, 0)
        remaining = [*monomial]
        for atom in atoms:
            if atom in remaining:
                remaining.remove(atom)
        is_exact = len(remaining) + len(atoms) == len(monomial) and times % count == 0
        if is_exact and times:
            factor = Dim({tuple(remaining): times // count}) * 1
            whole, rest = whole + factor, rest - factor * divisor
    is_partial = others and rest != 0  # only whole multiples of a sum are exact
    return (0, dividend) if is_partial else (whole, rest)


def extreme(kind: str, one: DimLike, other: DimLike) -> DimLike:
    """Return the larger (`"max"`) or the smaller (`"min"`) of two dimensions."""
    try:
        is_first = one >= other if kind == "max" else one <= other
    except UndecidedError:
        one, other = sorted((one, other), key=lambda d: (isinstance(d, Dim), str(d)))
        return _of_atom(kind, one, other)
    return one if is_first else other


def evaluate(value: DimLike, lengths: Mapping[Any, int]) -> int:
    """Return the value of a dimension, from the lengths of axes by key."""
    return sum(
        count * math.prod(atom.evaluate(lengths) for atom in monomial)
        for monomial, count in terms_of(value).items()
    )
