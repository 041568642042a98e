"""`plot_loss_scale`: the loss scale of a training, epoch by epoch or step by step."""

import math
from typing import TYPE_CHECKING, Any

import keras

from keras_policies._common.types import Config
from keras_policies.diagnostics.plots import figures
from keras_policies.loss_scaling.callbacks import BY_STEP, STARTED_AT

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_loss_scale(
    history: keras.callbacks.History | Config, by_step: bool = False
) -> "Figure":
    """Draw the loss scale during a `fit`, and the skipped steps.

    The line begins at epoch 0 with the scale before the first step. A cross marks an
    epoch whose loss was NaN or infinite.

    Args:
        history: the `keras.callbacks.History` that `fit` returned, or its `history`
            dict, which does not have the scale before the first step. `fit` must have
            had a `LossScaleLogger` among its callbacks.
        by_step: bool, whether to draw each step instead of each epoch. It needs the
            `History`, and `LossScaleLogger(every_step=True)`. A loss is the mean since
            the start of the epoch.

    Returns:
        A `matplotlib.figure.Figure`: save it with `savefig`, or show it in a notebook.

    Raises:
        ImportError: if matplotlib is not installed.
        TypeError: if `history` is a model.
        ValueError: if the history has no loss scale, or not that of each step.

    Example:
        >>> history = {"loss_scale": [32768, 8192], "skipped_steps": [0, 2]}
        >>> plot_loss_scale(history).get_suptitle()
        'Loss scale after each epoch: 32768 to 8192; epochs: 2; steps skipped: 2'
    """
    logs, epochs, start = _logged(history, by_step)
    unit = "step" if by_step else "epoch"
    scales = logs["loss_scale"]
    skipped = logs.get("skipped_steps", [0] * len(scales))
    at = [number + 1 for number in epochs or range(len(scales))]
    figure = figures.new_figure()
    upper, lower = figure.subplots(2, sharex=True, height_ratios=[2, 1])
    first = [] if start is None else [start]
    at_first = [at[0] - 1] * len(first)
    line = {"color": figures.DARK, "marker": "o", "markersize": 4}
    upper.plot([*at_first, *at], [*first, *scales], **line)
    losses = logs.get("loss") or [None] * len(scales)
    lost = [
        (x, y)
        for x, y, loss in zip(at, scales, losses, strict=True)
        if loss is not None and not math.isfinite(loss)
    ]
    if lost:
        cross = {"marker": "X", "s": 90, "color": "black", "zorder": 3}
        label = f"the loss of the {unit} is NaN or infinite"
        upper.scatter(*zip(*lost, strict=True), label=label, **cross)
        upper.legend()
    upper.set_yscale("log", base=2)
    upper.set_ylabel("loss scale (log scale)")
    upper.grid(axis="y", alpha=0.4)
    lower.bar(at, skipped, color=figures.LIGHT, edgecolor=figures.EDGE)
    lower.set_ylabel("skipped steps")
    lower.set_ylim(0, max(1, *skipped) * 1.1)
    lower.set_xlabel(unit)
    _count_by_ones(lower)
    ends = " to ".join(map(figures.scale_text, ([*first, *scales][0], scales[-1])))
    figure.suptitle(
        f"Loss scale after each {unit}: {ends}; {unit}s: {len(scales)}; "
        f"steps skipped: {sum(skipped)}"
    )
    return figure


def _count_by_ones(axes: Any) -> None:
    """Put the ticks of both axes on whole numbers."""
    from matplotlib.ticker import MaxNLocator

    for axis in axes.xaxis, axes.yaxis:
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _logged(
    history: keras.callbacks.History | Config, by_step: bool
) -> tuple[Config, list[int] | None, float | None]:
    """Return the logs of a training, the numbers of its epochs, and its first scale."""
    if isinstance(history, keras.Model):
        raise TypeError(
            "plot_loss_scale takes the keras.callbacks.History of a fit, or its "
            f"dict, but got a model: {history!r}. After fit, pass model.history."
        )
    params = getattr(history, "params", None) or {}
    logs = params.get(BY_STEP) if by_step else getattr(history, "history", history)
    if not isinstance(logs, dict) or not logs.get("loss_scale"):
        content = sorted(logs) if isinstance(logs, dict) else repr(history)
        logger = f"LossScaleLogger({'every_step=True' if by_step else ''})"
        of_steps = " of each step" if by_step else ""
        raise ValueError(
            f"The history has no loss scale{of_steps}; it has {content}. Pass the "
            f"result of model.fit(..., callbacks=[keras_policies.{logger}])."
        )
    epochs = None if by_step else getattr(history, "epoch", None)
    return logs, epochs, params.get(STARTED_AT)
