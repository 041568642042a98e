"""`plot_gradients`: gradients of a compiled model on a batch, and a picture of them."""

import dataclasses
import numbers
from collections.abc import Collection, Iterable, Iterator, Mapping
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


HIGHEST = 0.85  # of the bars of a layer, of the distance between two layers
INCHES = 0.4  # between two layers
BARS: tuple[dict[str, Any], ...] = (
    {"facecolor": figures.LIGHT, "edgecolor": figures.EDGE, "hatch": "////"},
    {"facecolor": figures.DARK, "alpha": 0.85},
)
LARGEST = 1100  # more than any exponent of a float64

Floats = npt.NDArray[np.floating[Any]]
ONE_BATCH = (
    "Pass arrays, of one batch; of a dataset take one: x, y = next(iter(dataset))."
)


def _check(x: Arrays, y: Arrays, needs_y: bool) -> None:
    """Raise `ValueError` if inputs and targets are not one batch of arrays."""
    if x is None or (y is None and needs_y):
        name = "x" if x is None else "y"
        raise ValueError(
            f"{name} is None, but the loss of the model is that of inputs x and their "
            f"targets y. {ONE_BATCH}"
        )
    sizes = dict((*_sizes("x", x), *_sizes("y", y)))
    counts = ", ".join(f"{size} in {name}" for name, size in sizes.items())
    if len(set(sizes.values())) > 1:
        raise ValueError(
            f"Expected as many samples in x as in y, but got {counts}. Pass the "
            "targets of the same batch."
        )
    if not sizes or 0 in sizes.values():
        raise ValueError(f"The batch is empty: {counts or 'no arrays'}. {ONE_BATCH}")


def _sizes(name: str, structure: Arrays) -> Iterator[tuple[str, int]]:
    """Yield the place of each array in a structure, and its batch size."""
    for path, array in keras.tree.flatten_with_path(structure):
        if array is None:  # an output without a loss
            continue
        place = name + "".join(f"[{key!r}]" for key in path)
        shape = getattr(array, "shape", None)
        if shape is None or len(shape) == 0:
            kind = "no array" if shape is None else "a single number"
            raise ValueError(
                f"Expected arrays, but {place} is {kind}, of type "
                f"{type(array).__name__}. {ONE_BATCH}"
            )
        yield place, int(shape[0])


def _tensors(structure: Arrays) -> Tensor:
    """Return arrays as tensors, floating-point ones in floatx, as `fit` makes them."""

    def convert(array: Arrays) -> Tensor:
        if array is None:
            return None
        tensor = ops.convert_to_tensor(array)
        is_float = keras.backend.is_float_dtype(tensor.dtype)
        return ops.cast(tensor, keras.config.floatx()) if is_float else tensor

    return keras.tree.map_structure(convert, structure)


def gradients_of(
    model: keras.Model, x: Arrays, y: Arrays, scale: float = 1.0
) -> list[Floats]:
    """Return the gradients of a compiled model's loss, times a loss scale.

    There is one array for each of `model.trainable_variables`, zeros if the loss does
    not depend on it.
    The loss is multiplied before the gradients are taken, in the dtypes in which the
    model computes, as in a training step. A model that is not built gets built;
    otherwise nothing in it changes: no weights, moving averages, seeds or metrics.
    """
    if not model.compiled:
        raise ValueError(
            f"The model '{model.name}' is not compiled, so there is no loss to take "
            "gradients of. Call model.compile(optimizer, loss) first."
        )
    # Without a loss given to `compile`, a loss of `add_loss` may need no targets.
    _check(x, y, needs_y=model.loss is not None)
    x, y = _tensors(x), _tensors(y)
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
    counts = np.zeros(2 * LARGEST, np.int64)
    zeros = non_finite = 0
    for array in arrays:
        finite = array[np.isfinite(array)]
        non_finite += array.size - finite.size
        other = finite[finite != 0]
        zeros += finite.size - other.size
        # frexp returns fractions between a half and one.
        exponents = np.frexp(other)[1] - 1 + LARGEST
        counts += np.bincount(exponents, minlength=counts.size)
    by_exponent = {int(n) - LARGEST: int(counts[n]) for n in np.flatnonzero(counts)}
    return Magnitudes(by_exponent, zeros, non_finite)


def zeros_in_both(first: Iterable[Floats], second: Iterable[Floats]) -> int:
    """Return how many numbers are zero in some arrays and in others of their shapes.

    Example:
        >>> zeros_in_both([np.array([0.0, 0.0, 1.0])], [np.array([0.0, 2.0, 0.0])])
        1
    """
    pairs = zip(first, second, strict=True)
    return sum(int(np.count_nonzero((a == 0) & (b == 0))) for a, b in pairs)


def plot_gradients(
    model: keras.Model,
    x: Arrays,
    y: Arrays = None,
    loss_scale: float | None = None,
    by_layer: bool = False,
) -> "Figure":
    """Draw how large the gradients on a batch are, as they are and times a loss scale.

    Each bar counts the gradients between one power of two and the next. The white zone
    is what float16 holds in full, the zone to its left what it holds with fewer digits
    (subnormal). Left of both a gradient becomes zero, right of them infinite. A layer
    that computes in float32 has gradients in the grey zones too, and loses nothing.

    The loss scale is `loss_scale`, or the one that applies to the model, which
    `summary` prints. If there is neither, one series is drawn: pass a number, such as
    `loss_scale=2**15`, to see what it would do. With two series, the legend says how
    many gradients are zero without the scale, and how many of them stay zero: those of
    a dead unit do, whatever the scale, while those that float16 rounded to zero do not.

    With `by_layer` each layer has a row of its own, with the gradients times the loss
    scale alone: it shows in which layer they leave float16's range. A row is as high as
    its highest bar.

    Draw it before `fit`: training with too high a loss scale makes weights NaN, and
    then all gradients are NaN. The title says so if weights are not finite.

    A model that is not built gets built; otherwise it does not change.

    Args:
        model: compiled `keras.Model`.
        x: array, or a structure of arrays, one batch of inputs.
        y: array, or a structure of arrays, the targets of that batch; None if the model
            was compiled without a loss.
        loss_scale: float, positive (unitless), in place of the one that applies.
        by_layer: bool, whether to draw the gradients of each layer.

    Returns:
        A `matplotlib.figure.Figure`, for `savefig` or to be shown by a notebook.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if the model is not compiled or has nothing trainable, if x and y
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
        return _by_layer(figure, model, gradients_of(model, x, y, scale), scale)
    factors = [1.0] if scale == 1 else [1.0, scale]
    gradients = {factor: gradients_of(model, x, y, factor) for factor in factors}
    sizes = {factor: magnitudes(arrays) for factor, arrays in gradients.items()}
    stay_zero = zeros_in_both(gradients[1.0], gradients[scale])
    _draw(figure, sizes, _labels(sizes, stay_zero))
    _set_title(figure, model, sizes[1.0].total)
    return figure


def _by_layer(
    figure: "Figure", model: keras.Model, gradients: list[Floats], scale: float
) -> "Figure":
    of_layers: dict[str, list[Floats]] = {}
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        path = variable.path.rpartition("/")[0].removeprefix(f"{model.name}/")
        of_layers.setdefault(path or variable.name, []).append(gradient)
    by_layer = {path: magnitudes(arrays) for path, arrays in of_layers.items()}
    _draw_layers(figure, by_layer, f"loss{_factor(scale)}")
    _set_title(figure, model, sum(sizes.total for sizes in by_layer.values()))
    return figure


def _set_title(figure: "Figure", model: keras.Model, total: int) -> None:
    title = f"Gradients of {model.name!r} on one batch, {total:,} numbers"
    figure.suptitle(f"{title}\n{words_on_weights(model)}".rstrip())


def _factor(scale: float) -> str:
    """Return words on the loss scale of a series."""
    if scale == 1:
        return " without a loss scale"
    return f" times {figures.scale_text(scale)}"


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


def _labels(sizes: dict[float, Magnitudes], stay_zero: int) -> list[str]:
    """Return the label of each series; `stay_zero` gradients are zero in all series."""
    labels = []
    for scale, series in sizes.items():
        is_compared = scale == 1 and len(sizes) > 1 and series.zeros
        stay = f" ({stay_zero:,} with the scale too)" if is_compared else ""
        counts = f"{series.zeros:,} zero{stay}, {series.non_finite:,} inf or NaN"
        labels.append(f"loss{_factor(scale)}: {counts}")
    return labels


def _subplots(figure: Any, series: Collection[Magnitudes]) -> tuple[Any, Any, Any]:
    """Return axes for zeros, for numbers over float16's range, and for inf and NaN."""
    zero, middle, infinite = figure.subplots(1, 3, sharey=True, width_ratios=[1, 12, 1])
    figures.draw_float16(middle, [n for sizes in series for n in sizes.counts])
    for side, name in (zero, "zero"), (infinite, "inf,\nNaN"):
        side.set_xlim(-0.2, 1.2)
        side.set_xticks([0.5], [name])
    for axes in zero, middle, infinite:
        axes.set_axisbelow(True)
        axes.grid(axis="y", alpha=0.4)
    return zero, middle, infinite


def _draw(figure: Any, series: dict[float, Magnitudes], labels: list[str]) -> None:
    """Draw each series: zeros, a histogram, and numbers that are not finite."""
    from matplotlib.patches import Patch

    zero, middle, infinite = _subplots(figure, series.values())
    width = 1 / len(series)
    for i, sizes in enumerate(series.values()):
        style = {"width": width, "align": "edge", **BARS[i]}
        at = np.array([*sizes.counts]) + i * width
        middle.bar(at, [*sizes.counts.values()], **style)
        zero.bar([i * width], [sizes.zeros], **style)
        infinite.bar([i * width], [sizes.non_finite], **style)
    zero.set_ylabel("number of gradients (log scale)")
    zero.set_yscale("log")
    zero.set_ylim(0.7, max(10, zero.get_ylim()[1]))
    middle.set_xlabel("absolute value (log scale), over the range of float16")
    # The legend is not made from the bars: a series without finite numbers has none.
    patches = [Patch(label=label, **BARS[i]) for i, label in enumerate(labels)]
    figure.legend(handles=patches, loc="outside lower center")


def _draw_layers(figure: Any, layers: Mapping[str, Magnitudes], label: str) -> None:
    """Draw the shares of each layer's gradients, by layer and by their size."""
    height = max(figures.SIZE[1], INCHES * len(layers) + 2)
    figure.set_size_inches(figures.SIZE[0], height)
    zero, middle, infinite = _subplots(figure, layers.values())
    from_below = list(layers.items())[::-1]
    for row, (_, sizes) in enumerate(from_below):
        style = {"align": "edge", "bottom": row, "color": figures.DARK, "zorder": 3}
        shares = [count / sizes.total for count in sizes.counts.values()]
        most = max([*shares, sizes.zeros / sizes.total, sizes.non_finite / sizes.total])
        heights = [HIGHEST * share / most for share in shares]
        middle.bar([*sizes.counts], heights, width=1, **style)
        for axes, count in (zero, sizes.zeros), (infinite, sizes.non_finite):
            axes.bar([0], [HIGHEST * count / sizes.total / most], width=1, **style)
    zero.set_yticks(range(len(layers)), [path for path, _ in from_below], va="bottom")
    zero.set_ylim(-0.2, len(layers))
    middle.set_xlabel(f"absolute value (log scale), {label}")
