"""`plot_gradients`: gradients of a compiled model on a batch, and a picture of them."""

import collections
import dataclasses
import math
import numbers
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_policies._common.types import Arrays, Tensor
from keras_policies.backends.running import backend
from keras_policies.diagnostics.plots import figures
from keras_policies.loss_scaling.loss_scale import FLOAT32_MAX
from keras_policies.loss_scaling.status import scaling_of, words_on_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure


HIGHEST = 0.85  # height of a layer's highest bar, relative to its row
INCHES = 0.4  # height of a row
BARS: tuple[dict[str, Any], ...] = (
    {"facecolor": figures.LIGHT, "edgecolor": figures.EDGE, "hatch": "////"},
    {"facecolor": figures.DARK, "alpha": 0.85},
)

Floats = npt.NDArray[np.floating[Any]]
ONE_BATCH = (
    "Pass arrays of one batch. From a dataset, take one: x, y = next(iter(dataset))."
)


def _check(x: Arrays, y: Arrays, needs_y: bool) -> None:
    """Raise `ValueError` if inputs and targets are not one batch of arrays."""
    if x is None or (y is None and needs_y):
        name = "x" if x is None else "y"
        raise ValueError(
            f"{name} is None, but the loss of the model needs inputs x and their "
            f"targets y. {ONE_BATCH}"
        )
    sizes = {}
    for (name, *keys), array in keras.tree.flatten_with_path({"x": x, "y": y}):
        if array is None:  # an output without a loss
            continue
        place = name + "".join(f"[{key!r}]" for key in keys)
        shape = getattr(array, "shape", None)
        if shape is None or len(shape) == 0:
            kind = "not an array but" if shape is None else "a single number,"
            raise ValueError(
                f"Expected arrays, but {place} is {kind} of type "
                f"{type(array).__name__}. {ONE_BATCH}"
            )
        sizes[place] = int(shape[0])
    counts = ", ".join(f"{size} in {name}" for name, size in sizes.items())
    if len(set(sizes.values())) > 1:
        raise ValueError(
            f"Expected as many samples in x as in y, but got {counts}. Pass the "
            "targets of the same batch."
        )
    if not sizes or 0 in sizes.values():
        raise ValueError(f"The batch is empty: {counts or 'no arrays'}. {ONE_BATCH}")


def _tensor(array: Arrays) -> Tensor:
    """Return an array as a tensor, a floating-point one in floatx, as in `fit`."""
    if array is None:
        return None
    tensor = ops.convert_to_tensor(array)
    is_float = keras.backend.is_float_dtype(tensor.dtype)
    return ops.cast(tensor, keras.config.floatx()) if is_float else tensor


def gradients_of(
    model: keras.Model, x: Arrays, y: Arrays, scale: float = 1.0
) -> list[Floats]:
    """Return the gradients of a compiled model's loss, times a loss scale.

    There is one array for each of `model.trainable_variables`, zeros if the loss does
    not depend on it. The loss is multiplied before the gradients are taken, in the
    dtypes in which the model computes, as in a training step. A model that is not
    built is built; otherwise nothing in it changes: no weights, moving averages, seeds
    or metrics.
    """
    if not model.compiled:
        raise ValueError(
            f"The model '{model.name}' is not compiled, so there is no loss to take "
            "gradients of. Call model.compile(optimizer, loss) first."
        )
    # Without a loss given to `compile`, a loss of `add_loss` may need no targets.
    _check(x, y, needs_y=model.loss is not None)
    x, y = (keras.tree.map_structure(_tensor, arrays) for arrays in (x, y))
    # Builds the model and its loss.
    with keras.StatelessScope(collect_losses=True):
        model.compute_loss(x=x, y=y, y_pred=model(x, training=False), training=False)
    variables = model.trainable_variables
    if not variables:
        raise ValueError(
            f"The model '{model.name}' has no trainable weights, so there are no "
            "gradients. Add a layer that has some, or set trainable=True."
        )
    others = model.non_trainable_variables

    def loss(values: list[Tensor]) -> Tensor:
        state = [*zip(variables, values, strict=True), *((v, v.value) for v in others)]
        with keras.StatelessScope(state_mapping=state, collect_losses=True):
            predicted = model(x, training=True)
            total = model.compute_loss(x=x, y=y, y_pred=predicted, training=True)
            return ops.multiply(ops.cast(total, "float32"), scale)

    return backend.gradients(loss, [v.value for v in variables])


@dataclasses.dataclass(frozen=True)
class Magnitudes:
    """How large the numbers in some arrays are."""

    counts: dict[int, int]  # {n: how many x have 2**n <= abs(x) < 2**(n + 1)}
    zeros: int
    non_finite: int  # how many are infinite or NaN

    @property
    def total(self) -> int:
        """int, how many numbers there are."""
        return sum(self.counts.values()) + self.zeros + self.non_finite


def magnitudes(arrays: Iterable[Floats]) -> Magnitudes:
    """Return the `Magnitudes` of the numbers in some numpy arrays.

    Example:
        >>> magnitudes([np.array([0.0, 0.75, -3.0, np.inf]), np.array([2.0])])
        Magnitudes(counts={-1: 1, 1: 2}, zeros=1, non_finite=1)
    """
    counts: collections.Counter[int] = collections.Counter()
    zeros = non_finite = 0
    for array in arrays:
        finite = array[np.isfinite(array)]
        other = finite[finite != 0]
        non_finite += array.size - finite.size
        zeros += finite.size - other.size
        # frexp returns fractions between a half and one.
        exponents = np.frexp(other)[1].astype(np.int16) - 1
        for n, count in zip(*np.unique(exponents, return_counts=True), strict=True):
            counts[int(n)] += int(count)
    return Magnitudes(dict(sorted(counts.items())), zeros, non_finite)


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
    figure = figures.new_figure()
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
    is_bool = isinstance(loss_scale, bool)
    is_number = isinstance(loss_scale, numbers.Real) and not is_bool
    if not is_number or not 0 < loss_scale <= FLOAT32_MAX:
        raise ValueError(
            "loss_scale must be a number, positive and finite in float32, or None for "
            f"the one that applies to the model. Received: loss_scale={loss_scale!r}."
        )
    return float(loss_scale)


def _label(scale: float) -> str:
    """Return the name of a series."""
    factor = f" times {figures.scale_text(scale)}"
    return f"loss{' without a loss scale' if scale == 1 else factor}"


def _subplots(figure: Any, series: Iterable[Magnitudes]) -> tuple[Any, Any, Any]:
    """Return axes for zeros, for the range of float16, and for inf and NaN."""
    zero, middle, infinite = figure.subplots(1, 3, sharey=True, width_ratios=[1, 12, 1])
    figures.draw_float16(middle, [n for sizes in series for n in sizes.counts])
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
    height = max(figures.SIZE[1], INCHES * len(layers) + 2)
    figure.set_size_inches(figures.SIZE[0], height)
    zero, middle, infinite = _subplots(figure, [sizes for _, sizes in layers])
    layers.reverse()  # rows are drawn from below
    for row, (_, sizes) in enumerate(layers):
        style = {"align": "edge", "bottom": row, "color": figures.DARK, "zorder": 3}
        most = max([1, *sizes.counts.values(), sizes.zeros, sizes.non_finite])
        heights = [HIGHEST * count / most for count in sizes.counts.values()]
        middle.bar([*sizes.counts], heights, width=1, **style)
        for axes, count in (zero, sizes.zeros), (infinite, sizes.non_finite):
            axes.bar([0], [HIGHEST * count / most], width=1, **style)
    zero.set_yticks(range(len(layers)), [path for path, _ in layers], va="bottom")
    zero.set_ylim(-0.2, len(layers))
    middle.set_xlabel(f"absolute value (log scale), {_label(scale)}")
