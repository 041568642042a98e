"""`plot_loss_scale`: the loss scale of a training, epoch by epoch."""

from typing import TYPE_CHECKING, Any

import keras

from keras_policies.annotations import Config
from keras_policies.plots import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_loss_scale(history: keras.callbacks.History | Config) -> "Figure":
    """Draw the loss scale after each epoch of a `fit`, and the steps it skipped.

    Args:
        history: the `keras.callbacks.History` that `fit` returned, or its `history`
            dict; `fit` must have had a `LossScaleLogger` among its callbacks.

    Returns:
        A `matplotlib.figure.Figure`, for `savefig` or to be shown by a notebook.

    Raises:
        ImportError: if matplotlib is not installed.
        TypeError: if `history` is a model.
        ValueError: if the history has no loss scale.

    Example:
        >>> history = {"loss_scale": [32768, 8192], "skipped_steps": [0, 2]}
        >>> plot_loss_scale(history).get_suptitle()
        'Loss scale after each epoch: 32768 to 8192; epochs: 2; steps skipped: 2'
    """
    scales, skipped, epochs = _logged(history)
    figure = figures.new_figure()
    upper, lower = figure.subplots(2, sharex=True, height_ratios=[2, 1])
    line = {"marker": "o", "markersize": 4, "drawstyle": "steps-mid"}
    upper.plot(epochs, scales, color=figures.DARK, **line)
    upper.set_yscale("log", base=2)
    upper.set_ylabel("loss scale (log)")
    upper.grid(axis="y", alpha=0.4)
    lower.bar(epochs, skipped, color=figures.LIGHT, edgecolor=figures.EDGE)
    lower.set_ylabel("skipped (steps)")
    lower.set_ylim(0, max(1, *skipped) * 1.1)
    lower.set_xlabel("epoch")
    _count_by_ones(lower)
    ends = " to ".join(map(figures.scale_text, (scales[0], scales[-1])))
    figure.suptitle(
        f"Loss scale after each epoch: {ends}; epochs: {len(scales)}; "
        f"steps skipped: {sum(skipped)}"
    )
    return figure


def _count_by_ones(axes: Any) -> None:
    """Put the ticks of both axes on whole numbers."""
    from matplotlib.ticker import MaxNLocator

    for axis in axes.xaxis, axes.yaxis:
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _logged(
    history: keras.callbacks.History | Config,
) -> tuple[list[float], list[int], list[int]]:
    """Return the loss scales, the skipped steps, and the epochs, counted from 1."""
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
