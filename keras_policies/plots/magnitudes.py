"""How large the numbers in some arrays are, counted by powers of two."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

LARGEST = 1100  # more than any exponent of a float64

Floats = npt.NDArray[np.floating[Any]]


@dataclasses.dataclass(frozen=True)
class Magnitudes:
    """How large the numbers in some arrays are."""

    counts: dict[int, int]  # {n: how many x have 2**n <= abs(x) < 2**(n + 1)}
    zeros: int
    non_finite: int  # how many are infinite or NaN

    @property
    def total(self) -> int:
        """int, how many numbers there are."""
        return sum(self.counts.values()) + self.zeros + self.non_finite


def magnitudes(arrays: Iterable[Floats]) -> Magnitudes:
    """Return the `Magnitudes` of the numbers in some numpy arrays.

    Example:
        >>> magnitudes([np.array([0.0, 0.75, -3.0, np.inf]), np.array([2.0])])
        Magnitudes(counts={-1: 1, 1: 2}, zeros=1, non_finite=1)
    """
    counts = np.zeros(2 * LARGEST, np.int64)
    zeros = non_finite = 0
    for array in arrays:
        finite = array[np.isfinite(array)]
        non_finite += array.size - finite.size
        other = finite[finite != 0]
        zeros += finite.size - other.size
        # frexp returns fractions between a half and one.
        exponents = np.frexp(other)[1] - 1 + LARGEST
        counts += np.bincount(exponents, minlength=counts.size)
    found = {int(n) - LARGEST: int(counts[n]) for n in np.flatnonzero(counts)}
    return Magnitudes(found, zeros, non_finite)


def zeros_in_both(first: Iterable[Floats], second: Iterable[Floats]) -> int:
    """Return how many numbers are zero in some arrays and in others of their shapes.

    Example:
        >>> zeros_in_both([np.array([0.0, 0.0, 1.0])], [np.array([0.0, 2.0, 0.0])])
        1
    """
    pairs = zip(first, second, strict=True)
    return sum(int(np.count_nonzero((a == 0) & (b == 0))) for a, b in pairs)
