"""`plot_loss_scale`: the loss scale of a training, epoch by epoch or step by step."""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import keras

from keras_policies._common.types import Config
from keras_policies.diagnostics.plots import figures
from keras_policies.loss_scaling.callbacks import BY_STEP, STARTED_AT

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Logged(NamedTuple):
    """What a training logged, with an item for each epoch or each step."""

    scales: list[float]
    skipped: list[int]
    lost: list[bool]  # whether the loss was NaN or infinite
    at: list[int]  # the numbers of the epochs or of the steps, from 1
    start: float | None  # the scale before the first


def plot_loss_scale(
    history: keras.callbacks.History | Config, by_step: bool = False
) -> "Figure":
    """Draw the loss scale during a `fit`, and the steps it skipped.

    The line begins at epoch 0 with the scale before the first step. A cross marks an
    epoch whose loss was NaN or infinite.

    Args:
        history: the `keras.callbacks.History` that `fit` returned, or its `history`
            dict, which does not know the scale before the first step; `fit` must have
            had a `LossScaleLogger` among its callbacks.
        by_step: bool, whether to draw each step, and not each epoch. It needs the
            `History`, and `LossScaleLogger(every_step=True)`. A loss is the mean since
            the epoch began.

    Returns:
        A `matplotlib.figure.Figure`, for `savefig` or to be shown by a notebook.

    Raises:
        ImportError: if matplotlib is not installed.
        TypeError: if `history` is a model.
        ValueError: if the history has no loss scale, or none of each step.

    Example:
        >>> history = {"loss_scale": [32768, 8192], "skipped_steps": [0, 2]}
        >>> plot_loss_scale(history).get_suptitle()
        'Loss scale after each epoch: 32768 to 8192; epochs: 2; steps skipped: 2'
    """
    logged = _logged(history, by_step)
    unit = "step" if by_step else "epoch"
    figure = figures.new_figure()
    upper, lower = figure.subplots(2, sharex=True, height_ratios=[2, 1])
    _draw_scales(upper, logged, unit)
    lower.bar(logged.at, logged.skipped, color=figures.LIGHT, edgecolor=figures.EDGE)
    lower.set_ylabel("skipped steps")
    lower.set_ylim(0, max(1, *logged.skipped) * 1.1)
    lower.set_xlabel(unit)
    _count_by_ones(lower)
    first = logged.scales[0] if logged.start is None else logged.start
    ends = " to ".join(map(figures.scale_text, (first, logged.scales[-1])))
    figure.suptitle(
        f"Loss scale after each {unit}: {ends}; {unit}s: {len(logged.scales)}; "
        f"steps skipped: {sum(logged.skipped)}"
    )
    return figure


def _draw_scales(axes: Any, logged: Logged, unit: str) -> None:
    has_start = logged.start is not None
    at = [logged.at[0] - 1, *logged.at] if has_start else logged.at
    scales = [logged.start, *logged.scales] if has_start else logged.scales
    axes.plot(at, scales, color=figures.DARK, marker="o", markersize=4)
    marked = zip(logged.at, logged.scales, logged.lost, strict=True)
    lost = [(x, y) for x, y, is_lost in marked if is_lost]
    if lost:
        cross = {"marker": "X", "s": 90, "color": "black", "zorder": 3}
        label = f"the loss of the {unit} is NaN or infinite"
        axes.scatter(*zip(*lost, strict=True), label=label, **cross)
        axes.legend()
    axes.set_yscale("log", base=2)
    axes.set_ylabel("loss scale (log scale)")
    axes.grid(axis="y", alpha=0.4)


def _count_by_ones(axes: Any) -> None:
    """Put the ticks of both axes on whole numbers."""
    from matplotlib.ticker import MaxNLocator

    for axis in axes.xaxis, axes.yaxis:
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _logged(history: keras.callbacks.History | Config, by_step: bool) -> Logged:
    """Return what a history holds of each epoch or of each step."""
    if isinstance(history, keras.Model):
        raise TypeError(
            "plot_loss_scale takes what fit returned, a keras.callbacks.History or its "
            f"dict, but got a model, {history!r}. After fit, it is in model.history."
        )
    params = getattr(history, "params", None) or {}
    logs = params.get(BY_STEP) if by_step else getattr(history, "history", history)
    if not isinstance(logs, dict) or not logs.get("loss_scale"):
        content = sorted(logs) if isinstance(logs, dict) else repr(history)
        logger = f"LossScaleLogger({'every_step=True' if by_step else ''})"
        of_steps = " of each step" if by_step else ""
        raise ValueError(
            f"The history has no loss scale{of_steps}; it has {content}. Pass what "
            f"model.fit(..., callbacks=[keras_policies.{logger}]) returned."
        )
    scales = logs["loss_scale"]
    skipped = logs.get("skipped_steps", [0] * len(scales))
    losses = logs.get("loss") or [None] * len(scales)
    epochs = None if by_step else getattr(history, "epoch", None)
    return Logged(
        scales,
        skipped,
        [loss is not None and not math.isfinite(loss) for loss in losses],
        [number + 1 for number in epochs or range(len(scales))],
        params.get(STARTED_AT),
    )
