"""`plot_loss_scale`, the picture of a training; and what pictures have in common.

matplotlib is imported when a picture is asked for; its global state is left alone.
"""

import functools
import io
import math
from typing import TYPE_CHECKING

import keras

from keras_policies.annotations import Config

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Dark and light, so that they differ in grey too.
DARK, LIGHT, EDGE = "#1f3b73", "#e8a33d", "#5a3a00"
SIZE = (8, 4.5)  # inches
LARGE = 2**17  # a scale of more digits than one reads at a glance


def new_figure():
    """Return an empty `matplotlib.figure.Figure` that a notebook shows."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "matplotlib, which draws the pictures, is not installed. Run "
            "pip install matplotlib."
        ) from error
    figure = Figure(figsize=SIZE, layout="constrained")
    # A notebook shows what can draw itself; pyplot is not told of this figure.
    figure._repr_png_ = functools.partial(_png, figure)
    return figure


def _png(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def scale_text(scale):
    """Return a loss scale for a label: a large one is mostly a power of two.

    Example:
        >>> scale_text(1024.0), scale_text(2.0**40)
        ('1024', '$2^{40}$')
    """
    exponent = math.log2(scale)
    if scale > LARGE and exponent.is_integer():
        return f"$2^{{{exponent:.0f}}}$"
    return f"{scale:.6g}"


def plot_loss_scale(history: keras.callbacks.History | Config) -> "Figure":
    """Draw the loss scale after each epoch of a `fit`, and the steps it skipped.

    Args:
        history: what `fit` returned, a `keras.callbacks.History`, or its `history`
            dict; `fit` must have had a `LossScaleLogger` among its callbacks.

    Returns:
        A `matplotlib.figure.Figure`, for `savefig` or to be shown by a notebook.

    Raises:
        ImportError: if matplotlib is not installed.
        TypeError: if it is given a model.
        ValueError: if the history has no loss scale.

    Example:
        >>> history = {"loss_scale": [32768, 8192], "skipped_steps": [0, 2]}
        >>> plot_loss_scale(history).get_suptitle()
        'Loss scale after each epoch: 32768 to 8192; epochs: 2; steps skipped: 2'
    """
    scales, skipped, epochs = _logged(history)
    figure = new_figure()
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
    ends = " to ".join(map(scale_text, (scales[0], scales[-1])))
    figure.suptitle(
        f"Loss scale after each epoch: {ends}; epochs: {len(scales)}; "
        f"steps skipped: {sum(skipped)}"
    )
    return figure


def _count_by_ones(axes):
    from matplotlib.ticker import MaxNLocator

    for axis in axes.xaxis, axes.yaxis:
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _logged(history):
    """Return the lists of loss scales, of skipped steps, and of epochs from 1 on."""
    if isinstance(history, keras.Model):
        raise TypeError(
            "plot_loss_scale takes what fit returned, a keras.callbacks.History or its "
            f"dict, but got a model, {history!r}. After fit, it is in model.history."
        )
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
