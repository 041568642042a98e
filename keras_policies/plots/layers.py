"""The gradients of each layer, drawn below one another over the range of float16."""

from collections.abc import Mapping
from typing import Any

from keras_policies.plots import figures, float16_range
from keras_policies.plots.magnitudes import Magnitudes

HIGHEST = 0.85  # of the bars of a layer, of the distance between two layers
INCHES = 0.4  # between two layers


def draw(figure: Any, found: Mapping[str, Magnitudes], label: str) -> None:
    """Draw the shares of each layer's gradients, by layer and by their size."""
    height = max(figures.SIZE[1], INCHES * len(found) + 2)
    figure.set_size_inches(figures.SIZE[0], height)
    zero, middle, infinite = figure.subplots(1, 3, sharey=True, width_ratios=[1, 12, 1])
    float16_range.draw(middle, [n for sizes in found.values() for n in sizes.counts])
    from_below = list(found.items())[::-1]
    for row, (_, sizes) in enumerate(from_below):
        style = {"align": "edge", "bottom": row, "color": figures.DARK, "zorder": 3}
        shares = [count / sizes.total for count in sizes.counts.values()]
        most = max([*shares, sizes.zeros / sizes.total, sizes.non_finite / sizes.total])
        heights = [HIGHEST * share / most for share in shares]
        middle.bar([*sizes.counts], heights, width=1, **style)
        for axes, count in (zero, sizes.zeros), (infinite, sizes.non_finite):
            axes.bar([0], [HIGHEST * count / sizes.total / most], width=1, **style)
    zero.set_yticks(range(len(found)), [path for path, _ in from_below], va="bottom")
    zero.set_ylim(-0.2, len(found))
    middle.set_xlabel(f"absolute value (log scale), {label}")
    for axes, name in (zero, "zero"), (infinite, "inf,\nNaN"):
        axes.set_xlim(-0.2, 1.2)
        axes.set_xticks([0.5], [name])
    for axes in zero, middle, infinite:
        axes.grid(axis="y", alpha=0.4)
