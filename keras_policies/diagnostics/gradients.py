"""The gradients of a compiled model on a batch, and how large they are."""

import collections
import dataclasses
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_policies._common.types import Arrays, Tensor
from keras_policies.backends.running import backend

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

    There is one array for each of `model.trainable_variables`. The loss is multiplied
    before the gradients are taken, as in a training step. A model that is not built is
    built; otherwise nothing in it changes: no weights, averages, seeds or metrics.
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
    """Return the `Magnitudes` of the numbers in some numpy arrays."""
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
