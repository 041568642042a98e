"""The gradients of a compiled model's loss on one batch, which is checked first."""

from collections.abc import Iterator

import keras
from keras import ops

from keras_policies.annotations import Arrays, Tensor
from keras_policies.backends.running import backend
from keras_policies.plots.magnitudes import Floats

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
    found = ", ".join(f"{size} in {name}" for name, size in sizes.items())
    if len(set(sizes.values())) > 1:
        raise ValueError(
            f"Expected as many samples in x as in y, but got {found}. Pass the targets "
            "of the same batch."
        )
    if not sizes or 0 in sizes.values():
        raise ValueError(f"The batch is empty: {found or 'no arrays'}. {ONE_BATCH}")


def _sizes(name: str, structure: Arrays) -> Iterator[tuple[str, int]]:
    """Yield the place of each array in a structure, and its batch size."""
    for path, array in keras.tree.flatten_with_path(structure):
        if array is None:  # an output without a loss
            continue
        place = name + "".join(f"[{key!r}]" for key in path)
        shape = getattr(array, "shape", None)
        if shape is None or len(shape) == 0:
            found = "no array" if shape is None else "a single number"
            raise ValueError(
                f"Expected arrays, but {place} is {found}, of type "
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
