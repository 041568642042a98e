"""The range of float16 on the x axis of a picture, whose unit is a power of two."""

from collections.abc import Collection
from typing import Any

# log2 of float16's smallest positive number, of its smallest normal number, and of the
# power of two where it overflows.
LEAST, LEAST_NORMAL, LIMIT = -24, -14, 16
# Exponents to label, the most important first: a later one is left out where it would
# touch an earlier one. The first three, the ends of the zones, are always labelled.
TICKS = (LEAST, LEAST_NORMAL, LIMIT, 0, -48, 32, 64, -70, -100, -126, 127, -34, -7, 8)
APART = 1 / 18  # of the width


def draw(axes: Any, shown: Collection[int]) -> None:
    """Draw zones where float16 has numbers, and say what it makes of the others.

    The x axis of `axes` is the exponent of a power of two, and includes all of `shown`.
    """
    low, high = min((LEAST - 5, *shown)), max((LIMIT + 4, *shown)) + 1
    zones = [
        (low, LEAST, "0.75", "zero in\nfloat16"),
        (LEAST, LEAST_NORMAL, "0.9", "sub-\nnormal"),
        (LEAST_NORMAL, LIMIT, "1.0", "normal"),
        (LIMIT, high, "0.75", "infinite in\nfloat16"),
    ]
    above = {"transform": axes.get_xaxis_transform(), "ha": "center", "va": "bottom"}
    for start, end, grey, name in zones:
        axes.axvspan(start, end, color=grey, zorder=0)
        axes.text((start + end) / 2, 1.01, name, fontsize=9, **above)
    axes.set_xlim(low, high)
    named = ticks(low, high)
    axes.set_xticks(named, [f"$2^{{{n}}}$" for n in named])


def ticks(low: int, high: int) -> list[int]:
    """Return the exponents to label, in order, far enough apart to be read.

    Example:
        >>> ticks(-29, 21)
        [-24, -14, -7, 0, 8, 16]
    """
    named: list[int] = []
    for n in TICKS:
        is_free = all(abs(n - other) >= (high - low) * APART for other in named)
        if low <= n <= high and (is_free or n in TICKS[:3]):
            named.append(n)
    return sorted(named)
