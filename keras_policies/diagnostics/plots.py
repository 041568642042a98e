"""The two pictures: the loss scale of a training, and a model's gradients on a batch.

matplotlib is imported when a picture is drawn; its global state does not change.
"""

import io
import math
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from keras_policies._common.types import Arrays, Config
from keras_policies.diagnostics.gradients import (
    Floats,
    Magnitudes,
    gradients_of,
    magnitudes,
)
from keras_policies.loss_scaling.callbacks import BY_STEP, STARTED_AT
from keras_policies.loss_scaling.loss_scale import FLOAT32_MAX, is_real
from keras_policies.loss_scaling.status import scaling_of, words_on_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Dark and light, so that they differ in grey too.
DARK, LIGHT, EDGE = "#1f3b73", "#e8a33d", "#5a3a00"
SIZE = (8, 4.5)  # inches
LARGE = 2**17  # a larger scale has more digits than one reads at a glance
# log2 of float16's smallest positive number, of its smallest normal number, and of the
# power of two where it overflows.
LEAST, LEAST_NORMAL, LIMIT = -24, -14, 16
HIGHEST = 0.85  # height of a layer's highest bar, relative to its row
INCHES = 0.4  # height of a row
BARS: tuple[dict[str, Any], ...] = (
    {"facecolor": LIGHT, "edgecolor": EDGE, "hatch": "////"},
    {"facecolor": DARK, "alpha": 0.85},
)
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
    """Return a loss scale for a label; a large one is usually a power of two."""
    exponent = math.log2(scale)
    if scale > LARGE and exponent.is_integer():
        return f"$2^{{{exponent:.0f}}}$"
    return f"{scale:.6g}"


def draw_float16(axes: Any, shown: Collection[int]) -> None:
    """Draw the zones of float16 over exponents of two that include all of `shown`."""
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
    """Return the exponents to label, in order, far enough apart to be read."""
    labelled: list[int] = []
    for n in TICKS:
        is_free = all(abs(n - other) >= (high - low) * APART for other in labelled)
        if low <= n <= high and (is_free or n in TICKS[:3]):
            labelled.append(n)
    return sorted(labelled)


def plot_gradients(
    model: keras.Model,
    x: Arrays,
    y: Arrays = None,
    loss_scale: float | None = None,
    by_layer: bool = False,
) -> "Figure":
    """Draw the magnitudes of the gradients on a batch, without and with a loss scale.

    Each bar counts the gradients between one power of two and the next. In the
    white zone, float16 has its full precision; in the zone to its left, it has fewer
    digits (subnormal). Further left a gradient becomes zero, further right infinite. A
    layer that computes in float32 also has gradients in the grey zones, and loses none.

    The loss scale is `loss_scale`, or the one that applies to the model, which
    `summary` prints. Without either, one series is drawn: pass a number, such as
    `loss_scale=2**15`, to see its effect. With two series, the legend says how many
    gradients are zero without the scale, and how many of them even with it: gradients
    of a dead unit stay zero, but those that float16 rounded to zero do not.

    With `by_layer`, each layer has a row with its gradients times the loss scale, which
    shows the layers in which they leave float16's range. Each row is scaled to its
    highest bar.

    Draw it before `fit`: training with a loss scale that is too high turns weights into
    NaN, and then all gradients are NaN. The title says so if weights are not finite.

    A model that is not built is built; otherwise it does not change.

    Args:
        model: compiled `keras.Model`.
        x: array, or a structure of arrays, one batch of inputs.
        y: array, or a structure of arrays, the targets of that batch; None if the model
            was compiled without a loss.
        loss_scale: float, positive (unitless), instead of the one that applies.
        by_layer: bool, whether to draw the gradients of each layer.

    Returns:
        A `matplotlib.figure.Figure`: save it with `savefig`, or show it in a notebook.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if the model is not compiled or has no trainable weights, if x and y
            are not one batch of arrays, or if the loss scale is not positive and finite
            in float32.

    Example:
        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> figure = plot_gradients(model, np.ones((4, 2)), np.ones((4, 1)), 2**15)
        >>> figure.get_suptitle().partition(",")[2]
        ' 3 numbers'
    """
    figure = new_figure()
    scale = _scale(model, loss_scale)
    if by_layer:
        _draw_layers(figure, model, gradients_of(model, x, y, scale), scale)
    else:
        factors = [1.0] if scale == 1 else [1.0, scale]
        _draw(figure, {n: gradients_of(model, x, y, n) for n in factors})
    count = sum(math.prod(v.shape) for v in model.trainable_variables)
    title = f"Gradients of {model.name!r} on one batch, {count:,} numbers"
    figure.suptitle(f"{title}\n{words_on_weights(model)}".rstrip())
    return figure


def _scale(model: keras.Model, loss_scale: float | None) -> float:
    """Return the loss scale to draw: the argument, or the model's, or 1."""
    if loss_scale is None:
        return scaling_of(model).value or 1.0
    if not is_real(loss_scale) or not 0 < loss_scale <= FLOAT32_MAX:
        raise ValueError(
            "loss_scale must be a number, positive and finite in float32, or None for "
            f"the one that applies to the model. Received: loss_scale={loss_scale!r}."
        )
    return float(loss_scale)


def _label(scale: float) -> str:
    """Return the name of a series."""
    factor = "without a loss scale" if scale == 1 else f"times {scale_text(scale)}"
    return f"loss {factor}"


def _subplots(figure: Any, series: Iterable[Magnitudes]) -> tuple[Any, Any, Any]:
    """Return axes for zeros, for the range of float16, and for inf and NaN."""
    zero, middle, infinite = figure.subplots(1, 3, sharey=True, width_ratios=[1, 12, 1])
    draw_float16(middle, [n for sizes in series for n in sizes.counts])
    for side, name in (zero, "zero"), (infinite, "inf,\nNaN"):
        side.set_xlim(-0.2, 1.2)
        side.set_xticks([0.5], [name])
    for axes in zero, middle, infinite:
        axes.set_axisbelow(True)
        axes.grid(axis="y", alpha=0.4)
    return zero, middle, infinite


def _draw(figure: Any, gradients: Mapping[float, list[Floats]]) -> None:
    """Draw each series: zeros, a histogram, and numbers that are not finite."""
    from matplotlib.patches import Patch

    series = {scale: magnitudes(arrays) for scale, arrays in gradients.items()}
    zero, middle, infinite = _subplots(figure, series.values())
    width, legend = 1 / len(series), []
    for i, (scale, sizes) in enumerate(series.items()):
        style = {"width": width, "align": "edge", **BARS[i]}
        at = np.array([*sizes.counts]) + i * width
        middle.bar(at, [*sizes.counts.values()], **style)
        zero.bar([i * width], [sizes.zeros], **style)
        infinite.bar([i * width], [sizes.non_finite], **style)
        stay = ""
        if i == 0 and len(series) > 1 and sizes.zeros:
            pairs = zip(*gradients.values(), strict=True)
            both = sum(int(np.count_nonzero((a == 0) & (b == 0))) for a, b in pairs)
            stay = f" ({both:,} even when scaled)"
        counts = f"{sizes.zeros:,} zero{stay}, {sizes.non_finite:,} inf or NaN"
        # Not made from the bars: a series without finite numbers has none.
        legend.append(Patch(label=f"{_label(scale)}: {counts}", **BARS[i]))
    zero.set_ylabel("number of gradients (log scale)")
    zero.set_yscale("log")
    zero.set_ylim(0.7, max(10, zero.get_ylim()[1]))
    middle.set_xlabel("absolute value (log scale), over the range of float16")
    figure.legend(handles=legend, loc="outside lower center")


def _draw_layers(
    figure: Any, model: keras.Model, gradients: list[Floats], scale: float
) -> None:
    """Draw the shares of each layer's gradients, by layer and by their size."""
    by_layer: dict[str, list[Floats]] = {}
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        path = variable.path.rpartition("/")[0].removeprefix(f"{model.name}/")
        by_layer.setdefault(path or variable.name, []).append(gradient)
    layers = [(path, magnitudes(arrays)) for path, arrays in by_layer.items()]
    height = max(SIZE[1], INCHES * len(layers) + 2)
    figure.set_size_inches(SIZE[0], height)
    zero, middle, infinite = _subplots(figure, [sizes for _, sizes in layers])
    layers.reverse()  # rows are drawn from below
    for row, (_, sizes) in enumerate(layers):
        style = {"align": "edge", "bottom": row, "color": DARK, "zorder": 3}
        most = max([1, *sizes.counts.values(), sizes.zeros, sizes.non_finite])
        heights = [HIGHEST * count / most for count in sizes.counts.values()]
        middle.bar([*sizes.counts], heights, width=1, **style)
        for axes, count in (zero, sizes.zeros), (infinite, sizes.non_finite):
            axes.bar([0], [HIGHEST * count / most], width=1, **style)
    zero.set_yticks(range(len(layers)), [path for path, _ in layers], va="bottom")
    zero.set_ylim(-0.2, len(layers))
    middle.set_xlabel(f"absolute value (log scale), {_label(scale)}")


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
    figure = new_figure()
    from matplotlib.ticker import MaxNLocator  # installed, since there is a figure

    upper, lower = figure.subplots(2, sharex=True, height_ratios=[2, 1])
    first = [] if start is None else [start]
    at_first = [at[0] - 1] * len(first)
    line = {"color": DARK, "marker": "o", "markersize": 4}
    upper.plot([*at_first, *at], [*first, *scales], **line)
    losses = [0.0 if loss is None else loss for loss in logs.get("loss") or ()]
    points = zip(at, scales, losses, strict=False)  # an old history has no losses
    lost = [(x, y) for x, y, loss in points if not math.isfinite(loss)]
    if lost:
        cross = {"marker": "X", "s": 90, "color": "black", "zorder": 3}
        label = f"the loss of the {unit} is NaN or infinite"
        upper.scatter(*zip(*lost, strict=True), label=label, **cross)
        upper.legend()
    upper.set_yscale("log", base=2)
    upper.set_ylabel("loss scale (log scale)")
    upper.grid(axis="y", alpha=0.4)
    lower.bar(at, skipped, color=LIGHT, edgecolor=EDGE)
    lower.set_ylabel("skipped steps")
    lower.set_ylim(0, max(1, *skipped) * 1.1)
    lower.set_xlabel(unit)
    for axis in lower.xaxis, lower.yaxis:
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ends = " to ".join(map(scale_text, ([*first, *scales][0], scales[-1])))
    figure.suptitle(
        f"Loss scale after each {unit}: {ends}; {unit}s: {len(scales)}; "
        f"steps skipped: {sum(skipped)}"
    )
    return figure


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
