"""Ops on texts, which are bytes in arrays of objects, and on lookup tables."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_policies.legacy.base.traced_functions import Table
from keras_policies.legacy.base.weights import Array
from keras_policies.legacy.texts import hashes


def _gathered(rows: Array, indices: Array, *_: Any) -> Array:
    gathered: Array = np.take(rows, np.asarray(indices), 0)
    return gathered


def _equal(left: Array, right: Array) -> Array:
    return np.asarray(np.asarray(left) == np.asarray(right))


def _chosen(condition: Array, on_true: Array, on_false: Array) -> Array:
    return np.where(condition, on_true, on_false)


OPS: Mapping[str, Callable[..., Array]] = {
    **dict.fromkeys(("Gather", "GatherV2", "ResourceGather"), _gathered),
    "AsString": lambda numbers: _each(b"%d".__mod__, numbers),
    "Equal": _equal,
    "ExpandDims": lambda texts, axis: np.expand_dims(texts, int(axis)),
    "NotEqual": lambda left, right: ~_equal(left, right),
    "Reshape": lambda texts, shape: np.reshape(texts, shape),
    "SelectV2": _chosen,
    "StringLower": lambda texts: _each(bytes.lower, texts),
    "Tile": lambda texts, times: np.tile(texts, times),
}
TABLE_OPS: Mapping[str, Callable[..., Array]] = {
    **dict.fromkeys(("LookupTableFind", "LookupTableFindV2"), Table.find),
    **dict.fromkeys(
        ("LookupTableSize", "LookupTableSizeV2"),
        lambda table: np.array(len(table.keys)),
    ),
}

# Ops that take their attributes, too.
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


def evaluated(
    op: str, attributes: Mapping[str, Any], values: Sequence[Any]
) -> Array | None:
    """Return the result of an op on texts, None for any other."""
    if op in HASHES:
        return HASHES[op](attributes, *values)
    is_written = op == "AsString" and np.asarray(values[0]).dtype.kind in "iu"
    return OPS[op](*values) if is_written or (op in OPS and are_in(values)) else None


def are_in(values: Sequence[Any]) -> bool:
    """Return whether one of some arrays holds texts."""
    return any(getattr(value, "dtype", None) == np.dtype(object) for value in values)
