"""Reads whole models from HDF5 files that tf.keras 2.0 to 2.15 wrote.

The configs are JSON in attributes of the root; the weights of a layer lie in the
group of its name, in the order of the attribute `weight_names`. Source:
keras/saving/legacy/hdf5_format.py (in TensorFlow 2.0: saving/hdf5_format.py).
"""

import contextlib
import os
import pathlib
from collections.abc import Iterator, Sequence

import h5py

from keras_policies.legacy.base import errors, remedies
from keras_policies.legacy.base.errors import FilePath, LegacyModelError
from keras_policies.legacy.base.model import (
    LayerWeights,
    LegacyModel,
    LegacyOptimizerState,
    LegacyWeight,
)
from keras_policies.legacy.guards import guarded_hdf5, texts
from keras_policies.legacy.guards.guarded_hdf5 import attribute, member
from keras_policies.legacy.readers import (
    hdf5_weights,
    keras_1,
    numbered_slots,
    vocabularies,
)
from keras_policies.legacy.readers.slot_names import SlotNames

# TensorFlow 2.0 wrote keras_version 2.2.4-tf, and no policy into any config.
WITHOUT_POLICIES = "2.2."
MODEL, TRAINING = "model_config", "training_config"
ITERATIONS = "iter", "iteration", "iterations"
MOMENTA = "m_schedule", "momentum_cache", "u_product"  # their product, of Nadam


def is_mixed(path: FilePath) -> bool:
    """Return whether tf.keras wrote a policy, or a loss scale, into the file."""
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
    """Return the state of an optimizer, of which a file holds these variables."""
    slot_names = SlotNames(item for found in weights.values() for item in found)
    iterations, slots, momenta = None, [], None
    for value in stored:
        leaf = value.name.rsplit("/", 1)[-1]
        slot = slot_names.slot(value)
        if slot is not None:
            slots.append(slot)
        elif leaf in ITERATIONS and not value.shape:
            iterations = value.read().item()
        elif leaf in MOMENTA and not value.shape:
            momenta = value.read().item()
    return LegacyOptimizerState(iterations, tuple(slots), momenta)


def _no_model(file: h5py.File, path: pathlib.Path) -> LegacyModelError:
    if guarded_hdf5.names(file, "layer_names"):
        remedy = remedies.load_weights_into_code(path)
        return LegacyModelError("it holds weights alone, without a model.", remedy)
    return LegacyModelError("an HDF5 file, but no Keras model: it has no model_config.")


@contextlib.contextmanager
def read(path: pathlib.Path) -> Iterator[LegacyModel]:
    """Yield the `LegacyModel` in the HDF5 file at `path`, which stays open."""
    with guarded_hdf5.open_file(path) as file:
        version = attribute(file, "keras_version") or "unknown"
        errors.check_version(version)
        text = attribute(file, MODEL)
        if text is None:
            raise _no_model(file, path)
        group, slots = member(file, "model_weights"), member(file, "optimizer_weights")
        if not isinstance(group, h5py.Group):
            raise LegacyModelError("the group model_weights is missing.")
        config = texts.decode(text, MODEL)
        by_layer = hdf5_weights.by_layer(group)
        stored = hdf5_weights.named(slots) if isinstance(slots, h5py.Group) else ()
        hdf5_weights.check_total(path, by_layer, stored)
        if keras_1.is_written_by(attribute(file, "keras_version")):
            config, by_layer = keras_1.as_keras_2(config, by_layer)
        found, weights = vocabularies.take(config, by_layer, {})
        compiled = attribute(file, TRAINING)
        training = None if compiled is None else texts.decode(compiled, TRAINING)
        optimizer = _optimizer(stored, weights)
        if numbered_slots.is_written_by(version) and training is not None:
            settings = training.get("optimizer_config") or {}
            trained = [*numbered_slots.trained(config, weights)]
            optimizer = numbered_slots.restored(optimizer, stored, settings, trained)
        yield LegacyModel(
            path=str(path),
            format="H5",
            written_by=f"Keras {version}",
            config=config,
            records_policies=not version.startswith(WITHOUT_POLICIES),
            weights=weights,
            training_config=training,
            optimizer=optimizer,
            vocabularies=found,
        )
