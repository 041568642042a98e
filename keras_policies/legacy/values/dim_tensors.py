"""Symbolic dimensions as tensors of the model: scalars, and lines of ones."""

import functools
from typing import Any

import numpy as np

from keras_policies._common.lazy_keras import ops
from keras_policies._common.types import Tensor
from keras_policies.legacy.guards import budget
from keras_policies.legacy.values.dims import Atom, AxisLength, Compound, Dim, DimLike
from keras_policies.legacy.values.ratios import Ratio


def scalar(value: Any) -> Any:
    """Return a dimension as an int32 scalar of the model, an int unchanged."""
    if isinstance(value, Ratio):
        dividend = ops.cast(scalar(value.dividend), value.dtype)
        return ops.divide(dividend, value.divisor) if value.divisor > 1 else dividend
    if not isinstance(value, Dim):
        return value
    budget.work(budget.OP * len(value.terms))
    products = []
    for monomial, count in sorted(value.terms.items(), key=lambda term: not term[0]):
        factors = [_scalar(atom) for atom in monomial]
        factors += [count] * (count != 1 or not monomial)
        products.append(functools.reduce(ops.multiply, factors))
    return functools.reduce(ops.add, products)  # the int, if any, comes last


def _scalar(atom: Atom) -> Tensor:
    if isinstance(atom, AxisLength):
        return ops.sum(_along(atom, "int32"))
    names = {"//": "floor_divide", "max": "maximum", "min": "minimum"}
    return getattr(ops, names[atom.kind])(*map(scalar, atom.operands))


def _along(axis: AxisLength, dtype: str) -> Tensor:
    """Return as many ones as an axis is long."""
    first: list[int | slice] = [0] * len(axis.tensor.shape)
    first[axis.axis] = slice(None)
    return ops.cast(ops.ones_like(axis.tensor[tuple(first)]), dtype)


def _without_halves(value: Dim) -> Dim:
    """Replace `T - T // 2` in a length by `(T + 1) // 2`."""
    for monomial, count in value.terms.items():
        atom = monomial[0] if len(monomial) == 1 else None
        if count == -1 and isinstance(atom, Compound) and atom.kind == "//":
            dividend, divisor = atom.operands
            if divisor == 2:
                value += Dim({monomial: 1}) - dividend + (dividend + 1) // 2
    return value


def _ones(count: int, dtype: str) -> Tensor:
    budget.spend(count, np.dtype(dtype).itemsize)
    return ops.ones((count,), dtype)


def ones(value: DimLike, dtype: str) -> Tensor:
    """Return a line of ones, or raise ValueError if no node has that length.

    Terms of a sum are concatenated, a negative number is cut off: `2*B - 1` is
    `ones(2*B)[1:]`.
    """
    if isinstance(value, int):
        return _ones(value, dtype)
    value = _without_halves(value)
    budget.work(budget.OP * len(value.terms))
    lines, cut = [], 0
    is_sum = len(value.terms) > 1
    for monomial, count in value.terms.items():
        if (is_sum or len(monomial) > 1) and any(atom.low < 0 for atom in monomial):
            raise ValueError(f"a length of {value}, a part of which may be negative")
        if count < 0 and monomial:
            raise ValueError(f"a length of {value}, which subtracts a size")
        if count < 0:
            cut = -count
            continue
        factors = [_line(atom, dtype) for atom in monomial]
        if count != 1 or not factors:
            factors.append(_ones(count, dtype))
        lines.append(
            functools.reduce(lambda a, b: ops.reshape(ops.outer(a, b), (-1,)), factors)
        )
    joined = lines[0] if len(lines) == 1 else ops.concatenate(lines, axis=0)
    return joined[(slice(cut, None),)] if cut else joined


def _line(atom: Atom, dtype: str) -> Tensor:
    """Return as many ones as an atom says."""
    if isinstance(atom, AxisLength):
        return _along(atom, dtype)
    number, length = atom.operands
    if atom.kind == "//":
        if not isinstance(length, int) or length < 1:
            raise ValueError(f"a length of {atom.text} needs a divisor that is known")
        last_of_group = slice(length - 1, None, length)
        return ones(number, dtype)[(last_of_group,)]
    if not isinstance(number, int):
        raise ValueError(f"a length of {atom.text}")
    number = max(number, 0)  # lengths are not negative
    if atom.kind == "min":
        return ones(length, dtype)[(slice(number),)]
    rest = ones(length, dtype)[(slice(number, None),)]
    return ops.concatenate([ops.ones((number,), dtype), rest], axis=0)
