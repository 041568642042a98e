"""Pictures: the loss scale of a training, and the gradients of a model on a batch.

matplotlib is imported when a picture is asked for; its global state is left alone.
"""

import functools
import io
from typing import TYPE_CHECKING

import keras
import numpy as np

from keras_policies import gradients, scaling
from keras_policies.annotations import Arrays, Config

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What float16 has: log2 of its least number, of its least normal one, and of its limit.
LEAST, LEAST_NORMAL, LIMIT = -24, -14, 16
# Dark and light, so that they differ in grey too.
DARK, LIGHT, EDGE = "#1f3b73", "#e8a33d", "#5a3a00"
BARS = (
    {"color": LIGHT, "edgecolor": EDGE, "hatch": "////"},
    {"color": DARK, "alpha": 0.85},
)
TICKS = (-126, -100, -70, -48, -34, LEAST, LEAST_NORMAL, -7, 0, 8, LIMIT, 32, 64, 127)
SIZE = (8, 4.5)  # inches


def _figure():
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "matplotlib, which draws the pictures, is not installed. Run "
            "pip install 'keras-policies[plot]'."
        ) from error
    figure = Figure(figsize=SIZE, layout="constrained")
    # A notebook shows what can draw itself; pyplot is not told of this figure.
    figure._repr_png_ = functools.partial(_png, figure)
    return figure


def _png(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def plot_loss_scale(history: keras.callbacks.History | Config) -> "Figure":
    """Draw the loss scale after each epoch of a `fit`, and the steps it skipped.

    Args:
        history: what `fit` returned, a `keras.callbacks.History`, or its `history`
            dict; `fit` must have had a `LossScaleLogger` among its callbacks.

    Returns:
        A `matplotlib.figure.Figure`, for `savefig` or to be shown by a notebook.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if the history has no loss scale.

    Example:
        >>> history = {"loss_scale": [32768, 8192], "skipped_steps": [0, 2]}
        >>> plot_loss_scale(history).get_suptitle()
        'Loss scale: 32768 to 8192; epochs: 2; steps skipped: 2'
    """
    scales, skipped, epochs = _logged(history)
    figure = _figure()
    upper, lower = figure.subplots(2, sharex=True, height_ratios=[2, 1])
    line = {"color": DARK, "marker": "o", "markersize": 4, "drawstyle": "steps-mid"}
    upper.plot(epochs, scales, **line)
    upper.set_yscale("log", base=2)
    upper.set_ylabel("loss scale (log)")
    upper.grid(axis="y", alpha=0.4)
    lower.bar(epochs, skipped, color=LIGHT, edgecolor=EDGE)
    lower.set_ylabel("skipped (steps)")
    lower.set_ylim(0, max(1, *skipped) * 1.1)
    lower.set_xlabel("epoch")
    _count_by_ones(lower)
    figure.suptitle(
        f"Loss scale: {scales[0]:.9g} to {scales[-1]:.9g}; epochs: {len(scales)}; "
        f"steps skipped: {sum(skipped)}"
    )
    return figure


def _count_by_ones(axes):
    from matplotlib.ticker import MaxNLocator

    for axis in axes.xaxis, axes.yaxis:
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _logged(history):
    """Return the lists of loss scales, of skipped steps, and of epochs from 1 on."""
    logs = getattr(history, "history", history)
    if not isinstance(logs, dict) or not logs.get("loss_scale"):
        found = sorted(logs) if isinstance(logs, dict) else repr(history)
        raise ValueError(
            f"The history has no loss scale; it has {found}. Pass what "
            "model.fit(..., callbacks=[keras_policies.LossScaleLogger()]) returned."
        )
    scales = logs["loss_scale"]
    skipped = logs.get("skipped_steps", [0] * len(scales))
    epochs = getattr(history, "epoch", None) or range(len(scales))
    return scales, skipped, [epoch + 1 for epoch in epochs]


def plot_gradients(model: keras.Model, x: Arrays, y: Arrays) -> "Figure":
    """Draw how large the gradients of a model on a batch are, over float16's range.

    They are taken twice, in the dtypes in which the model computes: of the loss, and
    of the loss times the loss scale that applies. What is zero in the first but not
    in the second is what the loss scale rescues; too high a scale makes infinities.
    The model does not change.

    Args:
        model: compiled `keras.Model`.
        x: array, or a structure of arrays, one batch of inputs.
        y: the same of targets.

    Returns:
        A `matplotlib.figure.Figure`, for `savefig` or to be shown by a notebook.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if the model is not compiled.

    Example:
        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> figure = plot_gradients(model, np.ones((4, 2)), np.ones((4, 1)))
        >>> figure.get_suptitle().partition(",")[2]
        ' 3 numbers'
    """
    figure = _figure()
    scale = scaling.scaling_of(model).value
    found = {
        factor: gradients.magnitudes(gradients.gradients_of(model, x, y, factor))
        for factor in dict.fromkeys((1.0, scale or 1.0))
    }
    _draw(figure, found)
    total = found[1.0].total
    figure.suptitle(f"Gradients of {model.name!r} on one batch, {total:,} numbers")
    return figure


def _draw(figure, found):
    """Draw a dict of loss scale to `Magnitudes`: zeros, a histogram, non-finite."""
    zero, middle, infinite = axes = figure.subplots(
        1, 3, sharey=True, width_ratios=[1, 12, 1]
    )
    shown = [n for sizes in found.values() for n in sizes.counts]
    _draw_range(middle, min([LEAST - 4, *shown]), max([LIMIT + 3, *shown]) + 1)
    width = 1 / len(found)
    for i, (scale, sizes) in enumerate(found.items()):
        of = "loss, not scaled" if scale == 1 else f"loss times {scale:.9g}"
        label = f"{of}: {sizes.zeros:,} zero, {sizes.non_finite:,} inf or NaN"
        style = {"width": width, "align": "edge", **BARS[i]}
        at = np.array([*sizes.counts]) + i * width
        middle.bar(at, [*sizes.counts.values()], label=label, **style)
        zero.bar([i * width], [sizes.zeros], **style)
        infinite.bar([i * width], [sizes.non_finite], **style)
    zero.set_ylabel("gradients (numbers, log)")
    zero.set_yscale("log")
    zero.set_ylim(0.7, max(10, zero.get_ylim()[1]))
    middle.set_xlabel("absolute value (log), over what float16 can hold")
    for side, name in (zero, "zero"), (infinite, "inf,\nNaN"):
        side.set_xlim(-0.2, 1.2)
        side.set_xticks([0.5], [name])
    for each in axes:
        each.set_axisbelow(True)
        each.grid(axis="y", alpha=0.4)
    figure.legend(loc="outside lower center")


def _draw_range(axes, low, high):
    """Draw where float16 has numbers, and say what it makes of the rest."""
    zones = [
        (low, LEAST, "0.75", "zero"),
        (LEAST, LEAST_NORMAL, "0.9", "subnormal"),
        (LEAST_NORMAL, LIMIT, "1.0", "normal"),
        (LIMIT, high, "0.75", "infinite"),
    ]
    above = {"transform": axes.get_xaxis_transform(), "ha": "center", "va": "bottom"}
    for start, end, grey, name in zones:
        axes.axvspan(start, end, color=grey, zorder=0)
        axes.text((start + end) / 2, 1.01, name, fontsize=9, **above)
    axes.set_xlim(low, high)
    ticks = [n for n in TICKS if low <= n <= high]
    axes.set_xticks(ticks, [f"$2^{{{n}}}$" for n in ticks])
