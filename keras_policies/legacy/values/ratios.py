"""Sizes as exact fractions: `ceil(T / 2)`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from keras_policies.legacy.guards import limits
from keras_policies.legacy.values.dims import DimLike, bounds, quotient


@dataclasses.dataclass(frozen=True)
class Ratio:
    """A floating-point number: a dimension divided by an integer.

    The code of models halves sizes as floats and rounds them: `ceil(T / 2)`.
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
        """Return 1 divided by this number, which must be known."""
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
        """Return the number rounded down."""
        return simplest(Ratio(quotient(self.dividend, self.divisor), 1, self.dtype))

    def ceil(self) -> Any:
        """Return the number rounded up."""
        return -(-self).floor()

    def truncated(self) -> DimLike:
        """Return the number truncated to a dimension."""
        if bounds(self.dividend)[0] < 0:
            raise TypeError(f"{self} may be negative")
        return quotient(self.dividend, self.divisor)

    def __str__(self) -> str:
        return f"({self.dividend}) / {self.divisor}"


def simplest(number: Ratio) -> Any:
    """Return a number, as a float if it does not depend on the model's input."""
    if number.divisor > limits.DIM_NUMBER:
        raise ValueError(f"a size divided by more than {limits.DIM_NUMBER}")
    if isinstance(number.dividend, int):
        return np.dtype(number.dtype).type(number.dividend / number.divisor)
    return number
