"""`load_weights`: weights of legacy files for a model that is written in code."""

import os
from collections.abc import Collection, Sequence

import keras

from keras_policies import keras_internals
from keras_policies._common import warnings as warn
from keras_policies._common.text import one_line
from keras_policies._common.types import Source
from keras_policies.legacy.assembly import (
    archive_paths,
    checkpoint_objects,
    compiling,
    made_in_code,
    own_classes,
    targets,
    weights,
)
from keras_policies.legacy.base import errors
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import LegacyOptimizerState
from keras_policies.legacy.base.weights import LegacyWeight
from keras_policies.legacy.readers import keras_archive, sources, weights_only
from keras_policies.loss_scaling.optimizer import LossScaleOptimizer


def _named(model: keras.Model, names: Collection[str]) -> set[int]:
    """Return the ids of the layers of these names, and of those in them."""
    layers = keras_internals.sublayers(model)
    strange = {*names} - {layer.name for layer in layers}
    if isinstance(names, str) or strange:
        raise ValueError(
            f"frozen must be names of layers in the model {model.name!r}, received "
            f"{names!r}; it has {sorted({layer.name for layer in layers})}."
        )
    outer = [layer for layer in layers if layer.name in names]
    inner = (each for layer in outer for each in keras_internals.sublayers(layer))
    return {*map(id, outer), *map(id, inner)}


def _has_known_order(model: keras.Model) -> bool:
    """Return whether a model surely has its trained weights in the order of tf.keras.

    Layers in code may be tracked in another order by Keras 3; shapes that are all
    different then show it.
    """
    shapes = [tuple(variable.shape) for variable in model.trainable_variables]
    layers = keras_internals.sublayers(model)
    return all(map(own_classes.is_stock, layers)) or len({*shapes}) == len(shapes)


def _numbered_state(
    model: keras.Model, stored: Sequence[LegacyWeight]
) -> tuple[LegacyOptimizerState, list[str]]:
    """Return the optimizer's state in a file that only numbers it, and what is left."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None or not stored:
        return LegacyOptimizerState(), []
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    name, settings = type(inner).__name__, inner.get_config()
    state = keras_archive.state_of(stored, {"class_name": name, "config": settings})
    problem = f"its {len(stored)} variables are not those of {name}"
    if state.iterations is not None:
        if _has_known_order(model):
            return state, []
        problem = "the file numbers it, and Keras 3 may number layers in code otherwise"
    return LegacyOptimizerState(), [f"the state of the optimizer: {problem}"]


def load_weights(
    model: keras.Model,
    path: Source,
    *,
    root: str | None = None,
    by_name: bool = False,
    skip_mismatch: bool = False,
    frozen: Collection[str] | None = None,
) -> None:
    """Load the weights of a legacy file into a model: all of them, or none.

    Layers with weights are paired by their order, as in tf.keras: the first in the file
    with the first in the model. A checkpoint of a compiled model also has the state of
    the optimizer: slots, iterations and loss scale. The state is restored if `model` is
    compiled. Vocabularies are no weights: lookup layers without one are named.

    Args:
        model: `keras.Model`, built.
        path: str or path: an HDF5 file of weights or of a whole model, the prefix of
            a checkpoint (`save_weights(save_format="tf")`, `tf.train.Checkpoint`), a
            folder of checkpoints, of which it takes the latest, or a SavedModel folder;
            a `.weights.h5` file of TensorFlow 2.12 to 2.15, which has no names, so that
            layers are paired by attribute, class and number; or an archive, a folder or
            an `"hf://user/model"` with one of them, as `load_model` takes it.
        root: str, the name under which a checkpoint tracks the object that has the
            weights, such as `"generator"` for `Checkpoint(generator=..., ...)`. None
            takes the object that fits the model.
        by_name: bool, whether to pair layers by their names instead, and to load only
            layers that both have. A SavedModel has names, but a checkpoint does not.
        skip_mismatch: bool, whether to skip weights that do not fit. A warning lists
            the skipped weights, also with `by_name`.
        frozen: names of the layers that were frozen (`trainable=False`) when an HDF5
            file was saved, which decided the order of its weights; those in them
            were, too. None if that is not known: names and shapes then decide.

    Raises:
        ValueError: if a name in `frozen` is not that of a layer.
        LegacyModelError: if the file cannot be read, or its weights do not fit (the
            message names those weights with both shapes), or no object or several
            objects of a checkpoint fit the model (the message lists the objects). The
            model is then unchanged.

    Example:
        >>> model = load_model("model_of_2020", compile=False)
        >>> load_weights(model, "weights_of_2020.h5")
    """
    if not model.built:
        raise LegacyModelError(
            f"the model {model.name!r} has no weights yet.",
            "Call it on a batch, or model.build(input_shape), first.",
            path=path,
            code="KP402",
        )
    frozen_layers = None if frozen is None else _named(model, frozen)
    path = sources.with_latest(path) if isinstance(path, str | os.PathLike) else path
    sources.check_meant(path, weights=True)
    with (
        weights_only.read(path, root, by_name=by_name) as candidates,
        errors.corrupt(path),
    ):
        objects = {name: each.by_layer for name, each in candidates.weights.items()}

        stored = candidates.of_optimizer

        def fit(by_layer: weights.ByLayer) -> checkpoint_objects.Fitted:
            if stored is None and not by_name:
                by_layer = weights.by_position(model, by_layer, skips=skip_mismatch)
            return weights.pair(
                model,
                by_layer,
                skips=skip_mismatch,
                some=by_name,
                frozen=frozen_layers,
            )

        if stored is None:
            fitting = checkpoint_objects.fitting(objects, candidates.meant, fit)
            name, (pairs, not_loaded) = fitting
            state = candidates.weights[name].optimizer
        else:
            (only,) = objects.values()
            pairs, not_loaded = archive_paths.fitting(
                model, only[""], fit, skips=skip_mismatch
            )
            state, told = _numbered_state(model, stored)
            not_loaded = [*not_loaded, *told]
        # Read all values and verify checksums before anything is changed.
        arrays = [targets.value_for(*pair) for pair in pairs]
        restores = state.iterations is not None and getattr(model, "optimizer", None)
        state = compiling.read_slots(state) if restores else state
    for (variable, _), value in zip(pairs, arrays, strict=True):
        variable.assign(value)
    targets.settle(model)
    if restores:
        problems = compiling.restore(model, state, pairs)
        not_loaded += [f"the state of the optimizer: {each}" for each in problems]
        if isinstance(model.optimizer, LossScaleOptimizer):
            compiling.restore_loss_scale(model.optimizer, state)
    not_loaded += [
        f"the vocabulary of {name!r}, which is empty: call its set_vocabulary"
        for name in made_in_code.empty_lookups(model)
    ]
    if not_loaded:
        left, file = "; ".join(not_loaded), one_line(str(path))
        warn.warn(f"{file}: the weights were loaded, without these: {left}.")
