"""Ops of the interpreter itself: means of draws, lists of tensors, texts, tables.

Texts are bytes in object arrays.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_policies.legacy.base.traced_functions import Table
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.guards import budget
from keras_policies.legacy.texts import hashes


def _full(value: float) -> Callable[..., Array]:
    """Return a function that fills an array with the mean of a draw."""

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

# Ops without a counterpart in `ops` -> the names of their outputs.
OUTPUTS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("CudnnRNN", "CudnnRNNV2"), ("output", "output_h", "output_c")),
    "TensorListPopBack": ("output_handle", "tensor"),
}


TEXTS: Mapping[str, Callable[..., Array]] = {
    **dict.fromkeys(
        ("Gather", "GatherV2", "ResourceGather"),
        lambda rows, indices, *_: np.take(rows, np.asarray(indices), 0),
    ),
    "AsString": lambda numbers: _each(b"%d".__mod__, numbers),
    "Equal": lambda left, right: np.asarray(np.equal(left, right), bool),
    "ExpandDims": lambda texts, axis: np.expand_dims(texts, int(axis)),
    "NotEqual": lambda left, right: np.asarray(np.not_equal(left, right), bool),
    "Reshape": lambda texts, shape: np.reshape(texts, shape),
    "SelectV2": np.where,
    "StringLower": lambda texts: _each(bytes.lower, texts),
    "Tile": lambda texts, times: np.tile(texts, times),
}
LOOKUPS: Mapping[str, Callable[..., Array]] = {
    **dict.fromkeys(("LookupTableFind", "LookupTableFindV2"), Table.find),
    **dict.fromkeys(
        ("LookupTableSize", "LookupTableSizeV2"),
        lambda table: np.array(len(table.keys)),
    ),
}

# Ops that also take their attributes.
HASHES: Mapping[str, Callable[..., Array]] = {
    "StringToHashBucketFast": lambda attributes, texts: _each(
        lambda text: hashes.farm(text) % attributes["num_buckets"], texts
    ).astype("int64"),
    "StringToHashBucketStrong": lambda attributes, texts: _each(
        lambda text: hashes.sip(text, attributes["key"]) % attributes["num_buckets"],
        texts,
    ).astype("int64"),
}


def _each(function: Callable[[Any], Any], texts: Array) -> Array:
    results = [function(text) for text in np.ravel(texts).tolist()]
    return np.array(results, object).reshape(np.shape(texts))


def on_texts(
    op: str, attributes: Mapping[str, Any], values: Sequence[Any]
) -> Array | None:
    """Return the result of an op on texts, or None for other ops."""
    if op in HASHES:
        return HASHES[op](attributes, *values)
    is_written = op == "AsString" and np.asarray(values[0]).dtype.kind in "iu"
    has_texts = any(getattr(v, "dtype", None) == np.dtype(object) for v in values)
    return TEXTS[op](*values) if op in TEXTS and (has_texts or is_written) else None
