"""Ops that the reference interpreter has itself: means of draws, lists of tensors."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import budget


def _full(value: float) -> Callable[..., Array]:
    """Return a function that gives draws of a shape their mean."""

    def full(attributes: Mapping[str, Any], shape: Array, *seeds: Array) -> Array:
        budget.spend(float(np.prod(np.asarray(shape, "float64"))))
        return np.full(shape, value, attributes.get("dtype", "float32"))

    return full


def _integers(
    attributes: Mapping[str, Any], shape: Array, low: Array, high: Array, *seeds: Array
) -> Array:
    mean = np.floor((np.float64(low) + high) / 2)
    return np.full(shape, mean, np.asarray(low).dtype)


# Op -> the mean of its draws.
MEANS: Mapping[str, Callable[..., Array]] = {
    **dict.fromkeys(("RandomStandardNormal", "TruncatedNormal"), _full(0)),
    "RandomUniform": _full(0.5),
    "RandomUniformInt": _integers,
}


def _reserved(attributes: Mapping[str, Any], shape: Array, count: Array) -> Any:
    budget.spend(max(int(count), 0), 8)
    return [[None] * int(count)]


def _stacked(attributes: Mapping[str, Any], items: list[Any], *shape: Array) -> Any:
    if not items or None in [None if x is None else 0 for x in items]:
        raise ValueError("a TensorList is not filled")
    budget.spend(sum(np.size(item) for item in items), np.asarray(items[0]).itemsize)
    return [np.stack(items)]


def _set(attributes: Mapping[str, Any], items: list[Any], at: Array, item: Any) -> Any:
    budget.work(budget.ITEM + len(items) * budget.NUMBER)
    return [[*items[: int(at)], item, *items[int(at) + 1 :]]]


def _get(attributes: Mapping[str, Any], items: list[Any], at: Array, *_: Any) -> Any:
    if not 0 <= int(at) < len(items) or items[int(at)] is None:
        raise ValueError(f"a TensorList of {len(items)} has no item {int(at)}")
    return [items[int(at)]]


# Op on a list of tensors -> its outputs.
LISTS: Mapping[str, Callable[..., Sequence[Any]]] = {
    "EmptyTensorList": lambda attributes, *_: [[]],
    "TensorListReserve": _reserved,
    "TensorListFromTensor": lambda attributes, tensor, *_: [[*tensor]],
    "TensorListStack": _stacked,
    "TensorListSetItem": _set,
    "TensorListGetItem": _get,
    "TensorListLength": lambda attributes, items: [np.int32(len(items))],
    "TensorListPushBack": lambda attributes, items, item: [[*items, item]],
    "TensorListPopBack": lambda attributes, items, *_: [items[:-1], items[-1]],
    "TensorListElementShape": lambda attributes, items: [np.shape(items[0])],
    "TensorListConcatV2": lambda attributes, items, *_: [np.concatenate(items)],
}
