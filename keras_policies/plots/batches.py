"""One batch passed by a user: checked, and converted to tensors as `fit` does."""

from collections.abc import Iterator

import keras
from keras import ops

from keras_policies.annotations import Arrays, Tensor

ONE_BATCH = (
    "Pass arrays, of one batch; of a dataset take one: x, y = next(iter(dataset))."
)


def check(x: Arrays, y: Arrays, needs_y: bool) -> None:
    """Raise `ValueError` if inputs and targets are not one batch of arrays.

    `needs_y` says whether there is a loss that compares with targets.
    """
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


def tensors(structure: Arrays) -> Tensor:
    """Return arrays as tensors, floating-point ones in floatx, as `fit` makes them."""

    def convert(array: Arrays) -> Tensor:
        if array is None:
            return None
        tensor = ops.convert_to_tensor(array)
        is_float = keras.backend.is_float_dtype(tensor.dtype)
        return ops.cast(tensor, keras.config.floatx()) if is_float else tensor

    return keras.tree.map_structure(convert, structure)
