"""Draw benchmarks/growth.png from results.json: `python -m benchmarks.pictures`."""

import json
from pathlib import Path

FOLDER = Path(__file__).parent
COLORS = {"jax": "tab:blue", "tensorflow": "tab:orange", "torch": "tab:green"}


def _panels(rows):
    """Return `{x label: {backend: [(size, median, low, high), ...]}}`."""
    panels = {}
    for backend, question, _, median, quartiles, *_ in rows:
        size, _, label = question.partition(" ")
        low, high = map(float, quartiles.split(" to "))
        point = int(size.replace(",", "")), float(median), low, high
        panels.setdefault(label, {}).setdefault(backend, []).append(point)
    return panels


def draw_growth(rows):
    """Draw the ratios of `bench_growth`, with their quartiles as bands."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = _panels(rows)
    figure, axes = pyplot.subplots(1, len(panels), figsize=(9, 3.6), sharey=True)
    for axis, (label, lines) in zip(axes, panels.items(), strict=True):
        axis.axhline(1, color="0.5", linewidth=1, linestyle="--")
        for backend, points in lines.items():
            sizes, medians, low, high = zip(*points, strict=True)
            color = COLORS[backend]
            axis.plot(sizes, medians, "-o", color=color, label=backend, markersize=4)
            axis.fill_between(sizes, low, high, color=color, alpha=0.2, linewidth=0)
        axis.set(xscale="log", xlabel=label)
        axis.grid(alpha=0.3)
    axes[0].set(ylabel="time of a step / stock Keras's", ylim=(0, None))
    axes[0].legend()
    figure.suptitle("Dynamic loss scaling, compared with stock Keras's")
    figure.tight_layout()
    figure.savefig(FOLDER / "growth.png", dpi=100)


if __name__ == "__main__":
    draw_growth(json.loads((FOLDER / "results.json").read_text())["growth"]["rows"])
