"""Reads HDF5 files that tf.keras 2.0 to 2.15 wrote: whole models, or weights alone.

The configs are JSON in attributes of the root; the weights of a layer lie in the
group of its name, in the order of the attribute `weight_names`. Source:
keras/saving/legacy/hdf5_format.py (in TensorFlow 2.0: saving/hdf5_format.py).
"""

import contextlib
import functools

import h5py
import ml_dtypes
import numpy as np

from keras_policies.legacy.base.errors import LegacyModelError, check_version
from keras_policies.legacy.base.model import (
    LegacyModel,
    LegacyOptimizerState,
    LegacyWeight,
    SlotNames,
)
from keras_policies.legacy.guards import json_text
from keras_policies.legacy.guards.guarded_hdf5 import (
    attribute,
    dataset,
    member,
    names,
    open_file,
)
from keras_policies.legacy.readers import vocabularies

SIGNATURE = b"\x89HDF\r\n\x1a\n"
# TensorFlow 2.0 wrote keras_version 2.2.4-tf, and no policy into any config.
WITHOUT_POLICIES = "2.2."


def _read(stored, where):
    """Return the array of a dataset; bfloat16 is stored as raw bytes of two."""
    try:
        array = stored[()]
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        raise LegacyModelError(
            f"{where}: the dataset {stored.name!r} cannot be read: {error}."
        ) from error
    if array.dtype.kind == "V" and array.dtype.itemsize == 2:
        array = array.view(ml_dtypes.bfloat16)
    return np.asarray(array)


def weight(group, name, path, where):
    """Return the `LegacyWeight` of a dataset, unread."""
    stored = dataset(group, name, where)
    dtype = stored.dtype
    if dtype.kind == "V" and dtype.itemsize == 2:
        dtype = np.dtype(ml_dtypes.bfloat16)
    return LegacyWeight(
        path=path,
        name="" if path else name.removesuffix(":0"),
        shape=tuple(stored.shape),
        dtype=dtype,
        read=functools.partial(_read, stored, where),
    )


def is_mixed(path):
    """Return whether tf.keras wrote a policy, or a loss scale, into the file."""
    if not h5py.is_hdf5(path):
        return False
    with open_file(path, str(path)) as file:
        if (attribute(file, "keras_version") or "").startswith("3."):
            return False
        layers = attribute(file, "model_config") or ""
        fitting = attribute(file, "training_config") or ""
    return '"Policy' in layers or '"LossScaleOptimizer' in fitting


def layer_weights(group, where):
    """Return `{layer: (LegacyWeight, ...)}` of a `model_weights` group, or a file."""
    found = {}
    for layer in names(group, "layer_names"):
        inner = member(group, layer, where)
        if not isinstance(inner, h5py.Group):
            raise LegacyModelError(
                f"{where}: the group of the layer {layer!r} is missing."
            )
        stored = names(inner, "weight_names")
        found[layer] = tuple(weight(inner, name, "", where) for name in stored)
    # Variables of a subclassed model itself (2.7 and on).
    top = member(group, "top_level_model_weights", where)
    if isinstance(top, h5py.Group) and names(top, "weight_names"):
        stored = names(top, "weight_names")
        found[""] = tuple(weight(top, name, "", where) for name in stored)
    return found


SCALARS = "momentum_cache", "u_product"


def _optimizer(file, weights, where):
    group = member(file, "optimizer_weights", where)
    stored = names(group, "weight_names") if isinstance(group, h5py.Group) else []
    slot_names = SlotNames(item for found in weights.values() for item in found)
    iterations, slots, scalars = None, [], {}
    for name in stored:
        value = weight(group, name, "", where)
        leaf = value.name.rsplit("/", 1)[-1]
        slot = slot_names.slot(value)
        if slot is not None:
            slots.append(slot)
        elif leaf in ("iter", "iteration", "iterations") and not value.shape:
            iterations = value.read().item()
        elif leaf in SCALARS and not value.shape:
            scalars[leaf] = value.read().item()
    return LegacyOptimizerState(
        iterations=iterations, slots=tuple(slots), scalars=scalars
    )


def _no_model(file, where):
    if names(file, "layer_names"):
        reason = (
            "it holds weights alone, without a model. Build the model in code, and "
            f"call keras_policies.load_weights(model, {where!r})."
        )
    else:
        reason = "an HDF5 file, but no Keras model: it has no model_config."
    return LegacyModelError(f"{where}: {reason}")


@contextlib.contextmanager
def read(path):
    """Yield the `LegacyModel` in the HDF5 file at `path`.

    Args:
        path: str or `pathlib.Path`. It stays open within this context.

    Raises:
        LegacyModelError: if it holds no model, or is corrupt.
    """
    where = str(path)
    with open_file(path, where) as file:
        version = attribute(file, "keras_version") or "unknown"
        check_version(version)
        text = attribute(file, "model_config")
        if text is None:
            raise _no_model(file, where)
        group = member(file, "model_weights", where)
        if not isinstance(group, h5py.Group):
            raise LegacyModelError(f"{where}: the group model_weights is missing.")
        config = json_text.decode(text, f"{where}: model_config")
        found, weights = vocabularies.take(config, layer_weights(group, where), {})
        training = attribute(file, "training_config")
        if training is not None:
            training = json_text.decode(training, f"{where}: training_config")
        yield LegacyModel(
            path=where,
            format="H5",
            written_by=f"Keras {version}",
            config=config,
            policy=None,
            records_policies=not version.startswith(WITHOUT_POLICIES),
            weights=weights,
            inputs={},
            training_config=training,
            optimizer=_optimizer(file, weights, where),
            vocabularies=found,
        )
