"""Sizes of axes that are known only when the model runs, such as the batch size.

In a Functional model, `tf.shape(x)` mostly goes into a reshape, a tile or a fill. Here
the shape is a list: known sizes are plain ints, the others are `Size` objects.
"""

import dataclasses
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from keras_policies.annotations import Tensor
from keras_policies.late import keras, keras_internals, ops


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Size:
    """A size that is known only when the model runs.

    `make` returns it as an int32 scalar tensor. `axis` of the KerasTensor `tensor` has
    this size, unless `tensor` is None. `sources` are the tensors that it comes from;
    of a product, `factors` are the sizes.
    """

    make: Callable[[], Tensor]
    tensor: Tensor = None
    axis: int = 0
    sources: tuple[Tensor, ...] = ()
    factors: tuple["int | Size", ...] = ()

    def ones(self, dtype: str) -> Tensor:
        """Return ones as long as the axis, or raise ValueError if there is no axis."""
        if self.tensor is not None:
            return _ones_along(self.tensor, self.axis, dtype)
        if not self.factors:
            raise ValueError(
                "a size computed from another that is known only when the model runs"
            )
        lines = [x.ones(dtype) if isinstance(x, Size) else x for x in self.factors]
        lines = [ops.ones((x,), dtype) if isinstance(x, int) else x for x in lines]
        return ops.reshape(ops.outer(*lines), (-1,))

    def __repr__(self) -> str:
        return "<a size known only when the model runs>"


def _ones_along(tensor: Tensor, axis: int, dtype: str) -> Tensor:
    first: list[int | slice] = [0] * len(tensor.shape)
    first[axis] = slice(None)
    return ops.cast(ops.ones_like(tensor[tuple(first)]), dtype)


def shape(tensor: Tensor) -> list[int | Size]:
    """Return the shape of a KerasTensor: a list of ints and `Size`s."""
    return [
        _size_of(tensor, axis) if size is None else size
        for axis, size in enumerate(tensor.shape)
    ]


def _size_of(tensor: Tensor, axis: int) -> Size:
    return Size(
        lambda: ops.sum(_ones_along(tensor, axis, "int32")), tensor, axis, (tensor,)
    )


def has_unknown(values: Iterable[object]) -> bool:
    """Return whether a size among these is known only when the model runs."""
    return any(isinstance(value, Size) for value in values)


def is_same(one: int | Size, other: int | Size) -> bool:
    """Return whether both are of one axis, or both the batch size of the model."""
    if not isinstance(one, Size) or not isinstance(other, Size):
        return False
    if one.tensor is other.tensor and one.tensor is not None:
        return one.axis == other.axis
    return _is_batch(one) and _is_batch(other)


def known(values: Iterable[int | Size], instead: int) -> list[int]:
    """Return sizes as ints, with another number for each that is not known."""
    return [instead if isinstance(value, Size) else value for value in values]


def as_tensor(value: Any) -> Any:
    """Return an operand in a form that Keras takes: `Size`s as tensors."""
    if isinstance(value, Size):
        return value.make()
    if isinstance(value, list) and has_unknown(value):
        return ops.stack([ops.cast(as_tensor(item), "int32") for item in value])
    return value


def combine(
    symbolic: Callable[..., Tensor], plain: Callable[..., Any], *values: Any
) -> Any:
    """Apply `plain` to numbers or lists of them, `symbolic` where one is a `Size`."""
    lists = [value for value in values if isinstance(value, list)]
    if lists:
        spread = [
            value if isinstance(value, list) else [value] * len(lists[0])
            for value in values
        ]
        return [combine(symbolic, plain, *items) for items in zip(*spread, strict=True)]
    if not has_unknown(values):
        return plain(*values)
    unknown = [value for value in values if isinstance(value, Size)]
    return Size(
        lambda: symbolic(*map(as_tensor, values)),
        sources=tuple(tensor for value in unknown for tensor in value.sources),
        factors=values if plain is operator.mul else (),
    )


def filled(values: Sequence[int | Size], number: object, dtype: str) -> Tensor:
    """Return a tensor of these sizes, some of them unknown, filled with a number."""
    found = ops.full(known(values, 1), number, dtype=dtype)
    for position, value in enumerate(values):
        if isinstance(value, Size):
            line = [1] * len(values)
            line[position] = -1
            zeros = ops.zeros_like(value.ones(dtype))
            # Tall first: stock TensorFlow takes a tall second operand for a bias.
            found = ops.add(ops.reshape(zeros, line), found)
    return found


def reshape(tensor: Tensor, values: Sequence[int | Size]) -> Tensor:
    """Reshape, or raise ValueError if more sizes are unknown than Keras can infer."""
    shape = known(values, -1)
    if shape.count(-1) <= 1:
        return ops.reshape(tensor, shape)
    rest = shape[1:]
    if rest.count(-1) == 1 and _is_batch(values[0]) and _keeps_batch(tensor):
        return keras.layers.Reshape(rest)(tensor)
    raise ValueError(f"shape: {shape.count(-1)} sizes of {values} are not known")


def _is_batch(size: int | Size) -> bool:
    if not isinstance(size, Size) or size.tensor is None or size.axis != 0:
        return False
    return _keeps_batch(size.tensor)


def _keeps_batch(tensor: Tensor) -> bool:
    """Return whether the first axis of a tensor is still that of the model's inputs.

    Only then can each example be reshaped by itself.
    """
    return tensor.shape[0] is None and all(
        isinstance(operation, keras.Layer)
        or not any(None in found.shape for found in inputs)
        or keras_internals.keeps_first_axis(operation, inputs, outputs)
        for operation, inputs, outputs in keras_internals.calls_before(tensor)
    )
