"""A batch that a user gives by hand: checked, and made into tensors as `fit` does."""

import keras
from keras import ops

ONE_BATCH = (
    "Pass arrays, of one batch; of a dataset take one: x, y = next(iter(dataset))."
)


def check(x, y, needs_y):
    """Raise if inputs and targets are not one batch of arrays.

    Args:
        x: the inputs that a user passed.
        y: the targets.
        needs_y: bool, whether there is a loss that compares with targets.

    Raises:
        ValueError: if something is no array, or has another batch size, or none.
    """
    if x is None or (y is None and needs_y):
        name = "x" if x is None else "y"
        raise ValueError(
            f"{name} is None, but the loss of the model is that of inputs x and their "
            f"targets y. {ONE_BATCH}"
        )
    sizes = {f"x{i}": size for i, size in _sizes("x", x)}
    sizes.update({f"y{i}": size for i, size in _sizes("y", y)})
    found = ", ".join(f"{size} in {name}" for name, size in sizes.items())
    if len(set(sizes.values())) > 1:
        raise ValueError(
            f"Expected as many samples in x as in y, but got {found}. Pass the targets "
            "of the same batch."
        )
    if not sizes or 0 in sizes.values():
        raise ValueError(f"The batch is empty: {found or 'no arrays'}. {ONE_BATCH}")


def _sizes(name, structure):
    """Yield where each array of a structure is, and its batch size."""
    for path, array in keras.tree.flatten_with_path(structure):
        if array is None:  # an output without a loss
            continue
        at = "".join(f"[{key!r}]" for key in path)
        shape = getattr(array, "shape", None)
        if shape is None or len(shape) == 0:
            what = "no array" if shape is None else "a single number"
            raise ValueError(
                f"Expected arrays, but {name}{at} is {what}, of type "
                f"{type(array).__name__}. {ONE_BATCH}"
            )
        yield at, int(shape[0])


def tensors(structure):
    """Return arrays as tensors, floating-point ones in floatx, as `fit` makes them."""

    def convert(array):
        if array is None:
            return None
        tensor = ops.convert_to_tensor(array)
        is_float = keras.backend.is_float_dtype(
            keras.backend.standardize_dtype(tensor.dtype)
        )
        return ops.cast(tensor, keras.config.floatx()) if is_float else tensor

    return keras.tree.map_structure(convert, structure)
