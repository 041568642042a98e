"""The gradients of a compiled model's loss on one batch, and how large they are."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_policies.annotations import Arrays, Tensor
from keras_policies.backends.running import backend

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
