"""Describes the weights in an HDF5 file, without reading them."""

import functools
import itertools
from collections.abc import Iterable

import h5py
import ml_dtypes
import numpy as np

from keras_policies import aligned
from keras_policies.legacy.base.errors import FilePath, LegacyModelError
from keras_policies.legacy.base.model import Array, LayerWeights, LegacyWeight
from keras_policies.legacy.guards import limits, packed, paths
from keras_policies.legacy.guards.guarded_hdf5 import dataset, member, names

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
RAW_BFLOAT16 = np.dtype("V2")  # h5py knows no bfloat16 and stores its two bytes


def _read(stored: h5py.Dataset) -> Array:
    try:
        array = aligned.zeros(stored.shape, stored.dtype)
        stored.read_direct(array)
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        reason = f"the dataset {stored.name!r} cannot be read: {error}."
        raise LegacyModelError(reason) from error
    return array.view(BFLOAT16) if array.dtype == RAW_BFLOAT16 else array


def check_total(
    path: FilePath, weights: LayerWeights, others: Iterable[LegacyWeight]
) -> None:
    """Raise if weights, some of which may be the same bytes, are too many for a file.

    `others` are those of the optimizer.
    """
    every = itertools.chain(*weights.values(), others)
    total, held = sum(one.size for one in every), paths.size(path)
    packed.check_expansion("its weights together", total, held, limits.SMALL_FILE_BYTES)


def weight(group: h5py.Group, name: str, path: str = "") -> LegacyWeight:
    """Return the `LegacyWeight` of a dataset, which goes by its path or by its name."""
    stored = dataset(group, name)
    dtype = stored.dtype
    return LegacyWeight(
        path=path,
        name="" if path else name.removesuffix(":0"),
        shape=tuple(stored.shape),
        dtype=BFLOAT16 if dtype == RAW_BFLOAT16 else dtype,
        read=functools.partial(_read, stored),
    )


def named(group: h5py.Group) -> tuple[LegacyWeight, ...]:
    """Return the weights that the attribute `weight_names` of a group lists."""
    return tuple(weight(group, name) for name in names(group, "weight_names"))


def by_layer(group: h5py.Group) -> LayerWeights:
    """Return `{layer: (LegacyWeight, ...)}` of a `model_weights` group, or a file."""
    found = {}
    for layer in names(group, "layer_names"):
        inner = member(group, layer)
        if not isinstance(inner, h5py.Group):
            raise LegacyModelError(f"the group of the layer {layer!r} is missing.")
        found[layer] = named(inner)
    # Variables of a subclassed model itself (2.7 and on).
    top = member(group, "top_level_model_weights")
    if isinstance(top, h5py.Group) and names(top, "weight_names"):
        found[""] = named(top)
    return found
