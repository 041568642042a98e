"""Shared by the pictures: figures, colours, labels, the range of float16."""

import io
import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Dark and light, so that they differ in grey too.
DARK, LIGHT, EDGE = "#1f3b73", "#e8a33d", "#5a3a00"
SIZE = (8, 4.5)  # inches
LARGE = 2**17  # a larger scale has more digits than one reads at a glance
# log2 of float16's smallest positive number, of its smallest normal number, and of the
# power of two where it overflows.
LEAST, LEAST_NORMAL, LIMIT = -24, -14, 16
# Exponents to label, the most important first: a later one is left out where it would
# touch an earlier one. The first three, the ends of the zones, are always labelled.
TICKS = (LEAST, LEAST_NORMAL, LIMIT, 0, -48, 32, 64, -70, -100, -126, 127, -34, -7, 8)
APART = 1 / 18  # of the width


def new_figure() -> "Figure":
    """Return an empty `matplotlib.figure.Figure` that a notebook shows."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "The pictures need matplotlib, which is not installed. Run "
            "pip install matplotlib."
        ) from error
    figure = Figure(figsize=SIZE, layout="constrained")

    def png() -> bytes:
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png")
        return buffer.getvalue()

    # A notebook shows an object with this method; pyplot does not know the figure.
    vars(figure)["_repr_png_"] = png
    return figure


def scale_text(scale: float) -> str:
    """Return a loss scale for a label; a large one is usually a power of two.

    Example:
        >>> scale_text(1024.0), scale_text(2.0**40)
        ('1024', '$2^{40}$')
    """
    exponent = math.log2(scale)
    if scale > LARGE and exponent.is_integer():
        return f"$2^{{{exponent:.0f}}}$"
    return f"{scale:.6g}"


def draw_float16(axes: Any, shown: Collection[int]) -> None:
    """Draw the zones in which float16 has numbers, and label how it rounds the others.

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
    labelled = ticks(low, high)
    axes.set_xticks(labelled, [f"$2^{{{n}}}$" for n in labelled])


def ticks(low: int, high: int) -> list[int]:
    """Return the exponents to label, in order, far enough apart to be read.

    Example:
        >>> ticks(-29, 21)
        [-24, -14, -7, 0, 8, 16]
    """
    labelled: list[int] = []
    for n in TICKS:
        is_free = all(abs(n - other) >= (high - low) * APART for other in labelled)
        if low <= n <= high and (is_free or n in TICKS[:3]):
            labelled.append(n)
    return sorted(labelled)
