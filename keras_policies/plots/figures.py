"""What the pictures have in common: an empty figure, colours, and labels."""

import io
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Dark and light, so that they differ in grey too.
DARK, LIGHT, EDGE = "#1f3b73", "#e8a33d", "#5a3a00"
SIZE = (8, 4.5)  # inches
LARGE = 2**17  # a larger scale has more digits than one reads at a glance


def new_figure() -> "Figure":
    """Return an empty `matplotlib.figure.Figure` that a notebook shows."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "matplotlib, which draws the pictures, is not installed. Run "
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
