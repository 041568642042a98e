"""Sizes of axes that are known only when the model runs, such as the batch's.

`tf.shape(x)` of a Functional model mostly goes into a reshape, a tile or a fill. In
Keras 3 the sizes that are known are plain ints there, and the others `Size`.
"""

import keras
from keras import ops

from keras_policies.legacy.ops import batch


class Size:
    """A size that is known only when the model runs.

    Args:
        make: callable, returns the int32 scalar tensor of it.
        tensor: the KerasTensor whose axis it is, or None.
        axis: int, that axis.
    """

    def __init__(self, make, tensor=None, axis=None):
        self.make = make
        self.tensor = tensor
        self.axis = axis

    def ones(self, dtype):
        """Return a tensor of ones as long as the axis.

        Raises:
            ValueError: if it is the size of no axis, but reckoned from one.
        """
        if self.tensor is None:
            raise ValueError(
                "a size that is reckoned from one known only when the model runs"
            )
        first = [0] * len(self.tensor.shape)
        first[self.axis] = slice(None)
        return ops.cast(ops.ones_like(self.tensor[tuple(first)]), dtype)

    def __repr__(self):
        return "<a size known only when the model runs>"


def shape(tensor):
    """Return the shape of a KerasTensor: a list of ints and `Size`s."""
    return [
        _axis(tensor, axis) if size is None else size
        for axis, size in enumerate(tensor.shape)
    ]


def _axis(tensor, axis):
    def make():
        return ops.sum(Size(None, tensor, axis).ones("int32"))

    return Size(make, tensor, axis)


def as_tensor(value):
    """Return a value as operations of Keras take it: the tensor of a `Size`."""
    if isinstance(value, Size):
        return value.make()
    if isinstance(value, list) and any(isinstance(item, Size) for item in value):
        items = [as_tensor(item) for item in value]
        return ops.stack([ops.cast(i, "int32") for i in items])
    return value


def combine(symbolic, plain, *values):
    """Return an arithmetic function of sizes and constants, item by item.

    Args:
        symbolic: callable, the operation of Keras, for a `Size`.
        plain: callable, the same for numbers.
        values: numbers, `Size`s, or lists of them.
    """
    lists = [value for value in values if isinstance(value, list)]
    if lists:
        spread = [
            value if isinstance(value, list) else [value] * len(lists[0])
            for value in values
        ]
        return [combine(symbolic, plain, *items) for items in zip(*spread, strict=True)]
    if not any(isinstance(value, Size) for value in values):
        return plain(*values)
    return Size(lambda: symbolic(*map(as_tensor, values)))


def has_unknown(values):
    """Return whether a size among these is known only when the model runs."""
    return any(isinstance(value, Size) for value in values)


def filled(values, number, dtype):
    """Return a tensor of these sizes, one of them unknown, full of a number."""
    known = [1 if isinstance(value, Size) else value for value in values]
    found = ops.full(known, number, dtype=dtype)
    for position, value in enumerate(values):
        if isinstance(value, Size):
            line = [1] * len(values)
            line[position] = -1
            zeros = ops.zeros_like(value.ones(dtype))
            # Tall first: stock TensorFlow takes a tall second operand for a bias.
            found = ops.add(ops.reshape(zeros, line), found)
    return found


def _is_batch(size):
    is_axis = isinstance(size, Size) and size.tensor is not None
    return is_axis and size.axis == 0 and batch.is_first(size.tensor)


def reshape(tensor, values):
    """Reshape to sizes of which some are known only when the model runs.

    Raises:
        ValueError: if more are unknown than Keras can find out by itself.
    """
    unknown = [v for v in values if isinstance(v, Size) or v == -1]
    if len(unknown) <= 1:
        return ops.reshape(tensor, [-1 if isinstance(v, Size) else v for v in values])
    rest = [-1 if isinstance(v, Size) else v for v in values[1:]]
    if rest.count(-1) == 1 and _is_batch(values[0]) and batch.is_first(tensor):
        return keras.layers.Reshape(rest)(tensor)
    raise ValueError(f"shape: {len(unknown)} sizes of {values} are not known")
