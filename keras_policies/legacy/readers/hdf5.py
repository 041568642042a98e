"""Reads models and weights from HDF5 files that tf.keras 2.0 to 2.15 wrote.

The configs are JSON in attributes of the root; the weights of a layer are in the group
of its name, in the order of the attribute `weight_names`. Source:
keras/saving/legacy/hdf5_format.py (in TensorFlow 2.0: saving/hdf5_format.py).
"""

import contextlib
import functools
import itertools
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import h5py
import ml_dtypes
import numpy as np

from keras_policies._common import memory as aligned
from keras_policies._common.types import Config
from keras_policies.legacy.base import configs, errors, hints
from keras_policies.legacy.base.errors import FilePath, LegacyModelError, LimitError
from keras_policies.legacy.base.model import LegacyModel, LegacyOptimizerState
from keras_policies.legacy.base.weights import Array, LayerWeights, LegacyWeight
from keras_policies.legacy.guards import guarded_hdf5, limits, packed, paths, texts
from keras_policies.legacy.guards.budget import Limit
from keras_policies.legacy.guards.guarded_hdf5 import attribute, dataset, member, names
from keras_policies.legacy.readers import keras_1, layer_names, slots, vocabularies

# TensorFlow 2.0 wrote keras_version 2.2.4-tf, and no policy into any config.
WITHOUT_POLICIES = "2.2."
MODEL, TRAINING = "model_config", "training_config"
ROOT = "vars"  # a group of every `.weights.h5` file, for the model's own weights
ITERATIONS = "iter", "iteration", "iterations"
MOMENTA = "m_schedule", "momentum_cache", "u_product"  # Nadam's product of momenta
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
RAW_BFLOAT16 = np.dtype("V2")  # h5py does not know bfloat16, and stores two bytes


def is_mixed(path: FilePath) -> bool:
    """Return whether tf.keras wrote a policy or a loss scale into the file."""
    if not os.path.isfile(path) or not h5py.is_hdf5(path):
        return False
    with errors.located(path), guarded_hdf5.open_file(path) as file:
        if (attribute(file, "keras_version") or "").startswith("3."):
            return False
        layers = attribute(file, MODEL) or ""
        training = attribute(file, TRAINING) or ""
    return '"Policy' in layers or '"LossScaleOptimizer' in training


def _optimizer(
    stored: Sequence[LegacyWeight], weights: LayerWeights
) -> LegacyOptimizerState:
    """Return the state of the optimizer whose variables are `stored`."""
    slot_names = slots.SlotNames(itertools.chain(*weights.values()))
    iterations, matched, momenta = None, [], None
    for value in stored:
        leaf = value.name.rsplit("/", 1)[-1]
        slot = slot_names.slot(value)
        if slot is not None:
            matched.append(slot)
        elif leaf in ITERATIONS and not value.shape:
            iterations = value.read().item()
        elif leaf in MOMENTA and not value.shape:
            momenta = value.read().item()
    is_unread = iterations is None and bool(stored)
    return LegacyOptimizerState(
        iterations, tuple(matched), momenta, is_unread=is_unread
    )


@contextlib.contextmanager
def read(path: pathlib.Path) -> Iterator[LegacyModel]:
    """Yield the `LegacyModel` in the HDF5 file at `path`, which stays open."""
    with guarded_hdf5.open_file(path) as file:
        version = attribute(file, "keras_version") or "unknown"
        errors.check_version(version)
        text = attribute(file, MODEL)
        if text is None and (names(file, "layer_names") or ROOT in file):
            hint = hints.load_weights_into_code(path)
            raise LegacyModelError("it has weights, but no model.", hint)
        if text is None:
            reason = "an HDF5 file, but not a Keras model: it has no model_config."
            raise LegacyModelError(reason, code="KP102")
        group = member(file, "model_weights")
        states = member(file, "optimizer_weights")
        if not isinstance(group, h5py.Group):
            raise LegacyModelError("the group model_weights is missing.")
        config = configs.with_packages(texts.decode(text, MODEL))
        by_layer = weights_by_layer(group)
        stored = listed(states) if isinstance(states, h5py.Group) else ()
        check_total(path, by_layer, stored)
        if keras_1.is_written_by(attribute(file, "keras_version")):
            config, by_layer = keras_1.as_keras_2(config, by_layer)
        named = configs.with_listed_names(config, names(group, "layer_names"))
        layer_names.check(named, by_layer, path)
        config = configs.with_new_names(named)
        learned, weights = vocabularies.take(config, by_layer, {})
        training, problems = _training(attribute(file, TRAINING))
        optimizer = _optimizer(stored, weights)
        written = (training or {}).get("optimizer_config")
        if slots.NUMBERED.fullmatch(version) and isinstance(written, dict):
            trained = [*slots.trained(config, weights)]
            optimizer = slots.with_numbered(optimizer, stored, written, trained)
        yield LegacyModel(
            path=str(path),
            format="H5",
            written_by=f"Keras {version}",
            config=config,
            records_policies=not version.startswith(WITHOUT_POLICIES),
            weights=weights,
            training_config=training,
            optimizer=optimizer,
            vocabularies=learned,
            not_converted=problems,
        )


def _training(text: Any) -> tuple[Config | None, tuple[str, ...]]:
    """Return a training configuration, if any, or why it cannot be read."""
    try:
        decoded = None if text is None else texts.decode(text, TRAINING)
        return configs.with_packages(decoded), ()
    except LimitError:
        raise
    except LegacyModelError as error:
        return None, (f"{TRAINING}, which cannot be read ({error.reason})",)


def _read_dataset(stored: h5py.Dataset) -> Array:
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
    """Raise if weights claim more bytes than a file has; some may share bytes.

    `others` are those of the optimizer.
    """
    all_weights = itertools.chain(*weights.values(), others)
    total, size = sum(weight.size for weight in all_weights), paths.size(path)
    packed.check_expansion("its weights together", total, size, limits.SMALL_FILE_BYTES)


def weight(group: h5py.Group, name: str, path: str = "") -> LegacyWeight:
    """Return the `LegacyWeight` of a dataset, which has a path or a name."""
    stored = dataset(group, name)
    dtype = stored.dtype
    return LegacyWeight(
        path=path,
        name="" if path else name.removesuffix(":0"),
        shape=tuple(stored.shape),
        dtype=BFLOAT16 if dtype == RAW_BFLOAT16 else dtype,
        read=functools.partial(_read_dataset, stored),
    )


def listed(group: h5py.Group) -> tuple[LegacyWeight, ...]:
    """Return the weights that the attribute `weight_names` of a group lists."""
    found = layer_names.once(names(group, "weight_names"), "weight_names")
    return tuple(weight(group, name) for name in found)


def weights_by_layer(group: h5py.Group) -> LayerWeights:
    """Return `{layer: weights}` of the group `model_weights`, or of a weights file."""
    weights = {}
    most = group.file.id.get_filesize() // limits.WEIGHT_BYTES
    limit = Limit(most, "weights for its size")
    for layer in layer_names.once(names(group, "layer_names"), "layer_names"):
        inner = member(group, layer)
        if not isinstance(inner, h5py.Group):
            raise LegacyModelError(f"the group of the layer {layer!r} is missing.")
        limit.spend(len(names(inner, "weight_names")))
        weights[layer] = listed(inner)
    # The model's own weights, which older releases did not save.
    top = member(group, "top_level_model_weights")
    if isinstance(top, h5py.Group):
        weights[""] = listed(top)
    return weights
