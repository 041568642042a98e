"""Symbolic dimensions: integer polynomials in the lengths of axes.

A polynomial is `{monomial: coefficient}`, a monomial a sorted tuple of atoms: the
length of an axis, a floor quotient, the larger or the smaller of two dimensions. The
form is canonical, so equality decides: `B * 20 // 20 == B`. A polynomial without atoms
is an `int`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from keras_policies._common.lazy_keras import ops
from keras_policies._common.types import Tensor
from keras_policies.legacy.guards import budget, limits

BATCH = "batch"


class UndecidedError(ValueError):
    """A comparison of two dimensions whose outcome depends on the model's input."""

    def __init__(self, one: DimLike, relation: str, other: DimLike) -> None:
        super().__init__(
            f"whether {one} {relation} {other} depends on the model's input"
        )


@dataclasses.dataclass(frozen=True)
class AxisLength:
    """The length of an axis of a tensor, at least 1.

    All axes that are the model's batch have the key `BATCH`, and so are one atom. An
    axis that several others are broadcast to has the set of their keys.
    """

    key: str | tuple[int, int] | frozenset[Any]
    tensor: Tensor = dataclasses.field(compare=False, repr=False)
    axis: int = dataclasses.field(compare=False, repr=False)
    low = 1
    depth = 0

    def __str__(self) -> str:
        if isinstance(self.key, str):
            return self.key
        return f"{self.tensor.name}.shape[{self.axis}]"

    def ones(self, dtype: str) -> Tensor:
        """Return ones as long as the axis."""
        first: list[int | slice] = [0] * len(self.tensor.shape)
        first[self.axis] = slice(None)
        return ops.cast(ops.ones_like(self.tensor[tuple(first)]), dtype)

    def scalar(self) -> Tensor:
        """Return the length as an int32 scalar tensor."""
        return ops.sum(self.ones("int32"))

    def evaluate(self, lengths: Mapping[Any, int]) -> int:
        """Return the length where those of axes are given, by their keys."""
        return lengths[self.key]


@dataclasses.dataclass(frozen=True)
class Quotient:
    """`dividend // divisor`, which is not a polynomial."""

    dividend: DimLike
    divisor: DimLike

    @functools.cached_property
    def low(self) -> float:
        """int or -inf, a lower bound."""
        low, divisor = bounds(self.dividend)[0], bounds(self.divisor)
        if divisor[0] < 1 or low == -math.inf:
            return -math.inf
        return 0 if low >= 0 else low

    @functools.cached_property
    def depth(self) -> int:
        """int, how many atoms are inside each other."""
        return 1 + max(depth(self.dividend), depth(self.divisor))

    def __str__(self) -> str:
        return f"(({self.dividend}) // ({self.divisor}))"

    def ones(self, dtype: str) -> Tensor:
        if isinstance(self.divisor, int) and self.divisor > 0:
            last_of_group = slice(self.divisor - 1, None, self.divisor)
            return ones(self.dividend, dtype)[(last_of_group,)]
        raise ValueError(f"a length of {self} needs a divisor that is known")

    def scalar(self) -> Tensor:
        return ops.floor_divide(scalar(self.dividend), scalar(self.divisor))

    def evaluate(self, lengths: Mapping[Any, int]) -> int:
        divisor = evaluate(self.divisor, lengths)
        return evaluate(self.dividend, lengths) // divisor


@dataclasses.dataclass(frozen=True)
class Extreme:
    """The larger (`"max"`) or the smaller (`"min"`) of two dimensions."""

    kind: str
    options: tuple[DimLike, DimLike]

    @functools.cached_property
    def low(self) -> float:
        return self._function(bounds(option)[0] for option in self.options)

    @functools.cached_property
    def depth(self) -> int:
        return 1 + max(map(depth, self.options))

    @property
    def _function(self) -> Callable[[Iterable[float]], float]:
        return max if self.kind == "max" else min

    def __str__(self) -> str:
        return f"{self.kind}({self.options[0]}, {self.options[1]})"

    def ones(self, dtype: str) -> Tensor:
        number, length = self.options
        if not isinstance(number, int):
            raise ValueError(f"a length of {self}")
        number = max(number, 0)  # no length is negative
        if self.kind == "min":
            return ones(length, dtype)[(slice(number),)]
        rest = ones(length, dtype)[(slice(number, None),)]
        return ops.concatenate([ops.ones((number,), dtype), rest], axis=0)

    def scalar(self) -> Tensor:
        function = ops.maximum if self.kind == "max" else ops.minimum
        return function(*map(scalar, self.options))

    def evaluate(self, lengths: Mapping[Any, int]) -> int:
        return int(self._function(evaluate(one, lengths) for one in self.options))


Atom: TypeAlias = AxisLength | Quotient | Extreme
Monomial: TypeAlias = tuple[Atom, ...]


class Dim:
    """A dimension that is known only when the model runs.

    `==` decides whether two dimensions are the same polynomial, and so equal whatever
    the input is. `<`, `<=`, `>` and `>=` raise `UndecidedError` where the input
    decides; an axis counts as not empty.

    Example:
        >>> size = batch(keras.Input((3,)))
        >>> size * 20 // 20 == size, size + 1 > size
        (True, True)
    """

    __slots__ = ("_hash", "terms")
    __array_ufunc__ = None  # numpy asks the operators below

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = dict(terms)
        self._hash = hash(frozenset(self.terms.items()))

    def __add__(self, other: Any) -> Any:
        if not is_integer(other):
            return NotImplemented
        terms = dict(self.terms)
        for monomial, count in _terms(other).items():
            terms[monomial] = terms.get(monomial, 0) + count
        return _simplified(terms)

    def __mul__(self, other: Any) -> Any:
        if not is_integer(other):
            return NotImplemented
        terms: dict[Monomial, int] = {}
        for one, count in self.terms.items():
            for two, times in _terms(other).items():
                monomial = tuple(sorted(one + two, key=str))
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
        terms = sorted(self.terms.items(), key=lambda term: str(term[0]), reverse=True)
        return " + ".join(
            "*".join([*([str(n)] if n != 1 or not m else []), *map(str, m)])
            for m, n in terms
        )


DimLike: TypeAlias = int | Dim


def axis_length(tensor: Tensor, axis: int) -> Dim:
    """Return the length of an axis as a dimension of its own."""
    return Dim({(AxisLength((id(tensor), axis), tensor, axis),): 1})


def meeting(keys: Iterable[Any], tensor: Tensor, axis: int) -> Dim:
    """Return the length of an axis to which axes of these keys are broadcast."""
    every = frozenset(
        each for key in keys for each in (key if isinstance(key, frozenset) else (key,))
    )
    return Dim({(AxisLength(every, tensor, axis),): 1})


def is_axis(length: Dim) -> bool:
    """Return whether a dimension is the length of one axis, and nothing else."""
    ((atoms, count), *rest) = length.terms.items()
    return not rest and count == 1 == len(atoms) and isinstance(atoms[0], AxisLength)


def batch(tensor: Tensor) -> Dim:
    """Return the batch size of the model, as the length of a tensor's first axis."""
    return Dim({(AxisLength(BATCH, tensor, 0),): 1})


def sizes(lengths: Sequence[int | None], name: str) -> Any:
    """Return a shape as an array, before there is a tensor that has it.

    Example:
        >>> sizes((None, 3), "x")
        array([x.shape[0], 3], dtype=object)
    """
    named = [f"{name}.shape[{axis}]" for axis in range(len(lengths))]
    values = [
        Dim({(AxisLength(key, None, axis),): 1}) if length is None else length
        for axis, (key, length) in enumerate(zip(named, lengths, strict=True))
    ]
    return np.array(values, dtype=object if None in lengths else "int32")


def read_from(tensor: Tensor, axis: int, length: DimLike | None) -> DimLike:
    """Return a dimension that is the length of an axis, read from there if it is one.

    Without `length`, it is one of its own. A weight that only gives a tensor its shape
    stays a part of the model that way.
    """
    if length is None:
        return axis_length(tensor, axis)
    if not isinstance(length, Dim) or not is_axis(length):
        return length
    (atom,) = axes_in(length)
    return Dim({(dataclasses.replace(atom, tensor=tensor, axis=axis),): 1})


def is_integer(value: object) -> bool:
    """Return whether a value is a dimension or a whole number."""
    return isinstance(value, Dim | int | np.integer) and not isinstance(value, bool)


def _terms(value: Any) -> Mapping[Monomial, int]:
    return value.terms if isinstance(value, Dim) else {(): operator.index(value)}


def _simplified(terms: Mapping[Monomial, int]) -> DimLike:
    nonzero = {monomial: count for monomial, count in terms.items() if count}
    if len(nonzero) > limits.DIM_TERMS:
        raise ValueError(f"a size that is a sum of more than {limits.DIM_TERMS} terms")
    return Dim(nonzero) if nonzero.keys() - {()} else nonzero.get((), 0)


def depth(value: DimLike) -> int:
    """Return how many atoms of a dimension are inside each other."""
    return max((atom.depth for m in _terms(value) for atom in m), default=0)


def bounds(value: DimLike) -> tuple[float, float]:
    """Return a lower and an upper bound, infinite where none is known."""
    low = high = 0.0
    for monomial, count in _terms(value).items():
        least = math.prod((max(a.low, -math.inf) for a in monomial), start=1.0)
        if any(atom.low < 0 for atom in monomial):
            return -math.inf, math.inf
        ends = (count * least, count * math.inf if monomial else count * least)
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
    """Return whether two dimensions differ, whatever the input is.

    Raises:
        UndecidedError: if the input decides.
    """
    if one == other:
        return False
    low, high = bounds(one - other)
    if low <= 0 <= high:
        raise UndecidedError(one, "!=", other)
    return True


def quotient(dividend: DimLike, divisor: DimLike) -> DimLike:
    """Return `dividend // divisor`, rounded down as Python does.

    What the divisor divides without rest is taken out of the quotient:
    `(20*B + T + 45) // 20 == B + 2 + (T + 5) // 20`.
    """
    if divisor == 0:
        raise ValueError(f"{dividend} divided by 0")
    if isinstance(divisor, int) and divisor < 0:
        dividend, divisor = -dividend, -divisor
    whole, rest = _divided(dividend, divisor)
    if isinstance(divisor, int):
        constant = _terms(rest).get((), 0) // divisor
        whole, rest = whole + constant, rest - constant * divisor
    if rest == 0 or (isinstance(rest, int) and isinstance(divisor, int)):
        return whole
    if isinstance(divisor, int) and _is_negated(rest):  # -(-T // 8) is (T + 7) // 8
        return whole - quotient(divisor - 1 - rest, divisor)
    atom = Quotient(rest, divisor)
    if atom.depth > limits.DIM_DEPTH:
        raise ValueError(f"a size that divides more than {limits.DIM_DEPTH} times")
    return Dim({(atom,): 1}) if whole == 0 else whole + Dim({(atom,): 1})


def multiple_after(length: DimLike, count: DimLike) -> int | None:
    """Return the number of which a length is a multiple once `count` is added, or None.

    `count` is below that number: `-(-T // 4) * 4 - T` more than `T` is one of 4.
    """
    divisors = (getattr(a, "divisor", None) for m in _terms(count) for a in m)
    for n in (n for n in divisors if isinstance(n, int)):
        if quotient(length + n - 1, n) * n - length == count:
            return n
    return None


def _is_negated(value: Any) -> bool:
    """Return whether the first term that is not a number has a factor below 0."""
    terms = {str(m): count for m, count in _terms(value).items() if m}
    return terms[min(terms)] < 0


def _divided(dividend: DimLike, divisor: DimLike) -> tuple[DimLike, DimLike]:
    """Return an exact quotient of some of the terms, and the rest."""
    (atoms, count), *others = sorted(_terms(divisor).items(), key=_order)
    whole: DimLike = 0
    rest = dividend
    for monomial, times in sorted(_terms(dividend).items(), key=_order):
        times = _terms(rest).get(monomial, 0)
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


def _order(term: tuple[Monomial, int]) -> tuple[int, str]:
    return -len(term[0]), str(term[0])


def extreme(kind: str, one: DimLike, other: DimLike) -> DimLike:
    """Return the larger (`"max"`) or the smaller (`"min"`) of two dimensions."""
    try:
        is_first = one >= other if kind == "max" else one <= other
    except UndecidedError:
        options = sorted((one, other), key=lambda d: (isinstance(d, Dim), str(d)))
        bound = Dim({(Extreme(kind, (options[0], options[1])),): 1})
        if depth(bound) > limits.DIM_DEPTH:
            raise ValueError(f"more than {limits.DIM_DEPTH} bounds of a size") from None
        return bound
    return one if is_first else other


def evaluate(value: DimLike, lengths: Mapping[Any, int]) -> int:
    """Return a dimension where the lengths of axes are given, by their keys."""
    return sum(
        count * math.prod(atom.evaluate(lengths) for atom in monomial)
        for monomial, count in _terms(value).items()
    )


def axes_in(value: Any) -> list[AxisLength]:
    """Return the axes whose lengths a dimension, or an array of them, depends on.

    Equal axes, such as the batch of two tensors, are all in it.
    """
    if isinstance(value, Ratio):
        value = value.dividend
    if not isinstance(value, np.ndarray | Dim | int):
        return []
    if isinstance(value, np.ndarray):
        return [axis for item in value.flat for axis in axes_in(item)]
    axes: list[AxisLength] = []
    for monomial in _terms(value):
        for atom in monomial:
            if isinstance(atom, AxisLength):
                axes.append(atom)
            elif isinstance(atom, Quotient):
                axes += axes_in(atom.dividend) + axes_in(atom.divisor)
            else:
                axes += [axis for item in atom.options for axis in axes_in(item)]
    return axes


def scalar(value: Any) -> Any:
    """Return a dimension as an int32 scalar tensor of the model; an int as it is."""
    if isinstance(value, Ratio):
        dividend = ops.cast(scalar(value.dividend), value.dtype)
        return ops.divide(dividend, value.divisor) if value.divisor > 1 else dividend
    if not isinstance(value, Dim):
        return value
    products = []
    for monomial, count in sorted(value.terms.items(), key=lambda term: not term[0]):
        factors = [atom.scalar() for atom in monomial]
        factors += [count] * (count != 1 or not monomial)
        products.append(functools.reduce(ops.multiply, factors))
    return functools.reduce(ops.add, products)  # the int, if any, comes last


@dataclasses.dataclass(frozen=True)
class Ratio:
    """A floating-point number: a dimension, divided by a whole number.

    The code of models halves sizes as floats, and rounds them: `ceil(T / 2)`.
    """

    dividend: DimLike
    divisor: int = 1
    dtype: str = "float32"

    def _with(self, other: Any, rule: Callable[[Ratio], Ratio]) -> Any:
        if isinstance(other, float | int | np.floating) and math.isfinite(other):
            dividend, divisor = float(other).as_integer_ratio()
            if divisor <= limits.DIM_DIVISOR:
                return simplest(rule(Ratio(dividend, divisor, self.dtype)))
        return simplest(rule(other)) if isinstance(other, Ratio) else NotImplemented

    def __add__(self, other: Any) -> Any:
        return self._with(other, self._sum)

    def _sum(self, other: Ratio) -> Ratio:
        dividend = self.dividend * other.divisor + other.dividend * self.divisor
        return Ratio(dividend, self.divisor * other.divisor, self.dtype)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, self._product)

    def _product(self, other: Ratio) -> Ratio:
        divisor = self.divisor * other.divisor
        return Ratio(self.dividend * other.dividend, divisor, self.dtype)

    def __truediv__(self, other: Any) -> Any:
        return self._with(other, lambda x: self._product(x.inverse()))

    def inverse(self) -> Ratio:
        """Return the number that divides 1 by this one, which is known."""
        if not isinstance(self.dividend, int) or self.dividend <= 0:
            raise TypeError(f"1 / {self}")
        return Ratio(self.divisor, self.dividend, self.dtype)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Any:
        return self * -1

    def __sub__(self, other: Any) -> Any:
        return self + -1 * other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def floor(self) -> Any:
        """Return the number, rounded down."""
        return simplest(Ratio(quotient(self.dividend, self.divisor), 1, self.dtype))

    def ceil(self) -> Any:
        """Return the number, rounded up."""
        up = -quotient(-self.dividend, self.divisor)
        return simplest(Ratio(up, 1, self.dtype))

    def truncated(self) -> DimLike:
        """Return the number as a dimension, truncated."""
        if bounds(self.dividend)[0] < 0:
            raise TypeError(f"{self} may be negative")
        return quotient(self.dividend, self.divisor)

    def __str__(self) -> str:
        return f"({self.dividend}) / {self.divisor}"


def simplest(number: Ratio) -> Any:
    """Return a number; a float if it does not depend on the model's input."""
    if isinstance(number.dividend, int):
        return np.dtype(number.dtype).type(number.dividend / number.divisor)
    return number


def _without_halves(value: Dim) -> Dim:
    """Return a length without `T - T // 2`, which is `(T + 1) // 2`."""
    for monomial, count in value.terms.items():
        atom = monomial[0] if len(monomial) == 1 else None
        if count == -1 and isinstance(atom, Quotient) and atom.divisor == 2:
            rest = value + Dim({(atom,): 1}) - atom.dividend
            value = rest + quotient(atom.dividend + 1, 2)
    return value


def _ones(count: int, dtype: str) -> Tensor:
    budget.spend(count, np.dtype(dtype).itemsize)
    return ops.ones((count,), dtype)


def ones(value: DimLike, dtype: str) -> Tensor:
    """Return ones of a length, or raise ValueError if no node gives as many.

    The parts of a sum are joined; a number is cut off: `2*B - 1` is `ones(2*B)[1:]`.
    """
    if isinstance(value, int):
        return _ones(value, dtype)
    value = _without_halves(value)
    parts, cut = [], 0
    is_sum = len(value.terms) > 1
    for monomial, count in value.terms.items():
        if (is_sum or len(monomial) > 1) and any(atom.low < 0 for atom in monomial):
            raise ValueError(f"a length of {value}, a part of which may be negative")
        if count < 0 and monomial:
            raise ValueError(f"a length of {value}, which subtracts a size")
        if count < 0:
            cut = -count
            continue
        lines = [atom.ones(dtype) for atom in monomial]
        if count != 1 or not lines:
            lines.append(_ones(count, dtype))
        product = functools.reduce(
            lambda a, b: ops.reshape(ops.outer(a, b), (-1,)), lines
        )
        parts.append(product)
    joined = parts[0] if len(parts) == 1 else ops.concatenate(parts, axis=0)
    return joined[(slice(cut, None),)] if cut else joined
