"""Lengths of axes as symbolic dimensions."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from keras_policies._common.types import Tensor
from keras_policies.legacy.values.dims import BATCH, AxisLength, Dim, DimLike, terms_of
from keras_policies.legacy.values.ratios import Ratio


def axis_length(tensor: Tensor, axis: int) -> Dim:
    """Return the length of an axis as a dimension of its own."""
    return Dim({(AxisLength((id(tensor), axis), tensor, axis),): 1})


def meeting(keys: Iterable[Any], tensor: Tensor, axis: int) -> Dim:
    """Return the length of an axis to which axes with these keys are broadcast."""
    every = frozenset(
        each for key in keys for each in (key if isinstance(key, frozenset) else (key,))
    )
    return Dim({(AxisLength(every, tensor, axis),): 1})


def is_axis(length: Dim) -> bool:
    """Return whether a dimension is the length of one axis."""
    ((atoms, count), *rest) = length.terms.items()
    return not rest and count == 1 == len(atoms) and isinstance(atoms[0], AxisLength)


def batch(tensor: Tensor) -> Dim:
    """Return the model's batch size: the length of the first axis of a tensor."""
    return Dim({(AxisLength(BATCH, tensor, 0),): 1})


def sizes(lengths: Sequence[int | None], name: str) -> Any:
    """Return a shape as an array, before a tensor has it.

    Example:
        >>> sizes((None, 3), "x")
        array([x.shape[0], 3], dtype=object)
    """
    named = [f"{name}.shape[{axis}]" for axis in range(len(lengths))]
    values = [
        Dim({(AxisLength(key, None, axis),): 1}) if length is None else length
        for axis, (key, length) in enumerate(zip(named, lengths, strict=True))
    ]
    return np.array(values, dtype=object if None in lengths else "int32")


def read_from(tensor: Tensor, axis: int, length: DimLike | None) -> DimLike:
    """Return the length of an axis, by default a new dimension, to be read from there.

    This keeps a weight in the model that only gives a tensor its shape.
    """
    if length is None:
        return axis_length(tensor, axis)
    if not isinstance(length, Dim) or not is_axis(length):
        return length
    (atom,) = axes_in(length)
    return Dim({(dataclasses.replace(atom, tensor=tensor, axis=axis),): 1})


def axes_in(value: Any) -> list[AxisLength]:
    """Return the axes on which a dimension depends, or an array of dimensions.

    Equal axes are all listed, such as the batches of two tensors.
    """
    if isinstance(value, Ratio):
        value = value.dividend
    if isinstance(value, np.ndarray):
        return [axis for item in value.flat for axis in axes_in(item)]
    axes: list[AxisLength] = []
    for monomial in terms_of(value) if isinstance(value, Dim) else ():
        for atom in monomial:
            if isinstance(atom, AxisLength):
                axes.append(atom)
            else:
                axes += [axis for item in atom.operands for axis in axes_in(item)]
    return axes
