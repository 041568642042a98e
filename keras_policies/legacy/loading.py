"""`load_model` and `load_weights`."""

import contextlib
import os
import pathlib
import tempfile

import keras

from keras_policies import keras_internals
from keras_policies.annotations import CustomObjects, Path, PolicyLike
from keras_policies.legacy import progress
from keras_policies.legacy.base.errors import (
    Keras3ModelError,
    LegacyModelError,
    corrupt,
)
from keras_policies.legacy.build import build, weights
from keras_policies.legacy.plan import plan
from keras_policies.legacy.plan.classes import checked_objects
from keras_policies.legacy.plan.policies import checked_policy
from keras_policies.legacy.readers import near_misses, readers, weights_only


def load_model(
    path: Path,
    custom_objects: CustomObjects = None,
    compile: bool = True,
    safe_mode: bool = True,
    dtype_policy: PolicyLike | None = None,
) -> keras.Model:
    """Open a model that tf.keras 2.0 to 2.15 wrote as an ordinary Keras 3 model.

    Its policies become plain ones, and the loss scale that a policy brought is
    dropped: Keras 3 scales the loss of a `mixed_float16` model by itself. An explicit
    `LossScaleOptimizer` comes back, with its current scale. A loss, a metric or an
    optimizer that is not known is left out, with one warning that lists them; without
    its whole loss, or its optimizer, the model is not compiled.

    Args:
        path: str or path: a SavedModel folder, an HDF5 file, a `.keras` file. What is
            in it decides, not what it is called. Files of Keras 3 go to
            `keras.models.load_model`.
        custom_objects: dict of the model's own classes and functions, by name. Layers
            that such a class makes without `dtype=` get the policy of its config.
        compile: bool, whether to compile the model with its optimizer, the
            optimizer's slots and iterations, its losses and metrics.
        safe_mode: bool, whether code in the file (a Lambda) is refused.
        dtype_policy: a policy, or the name of one, or a `DTypePolicyMap`, for the
            layers that had the model's own policy; layers with a dtype of their own
            keep it. If none computes in float16 then, a `LossScaleOptimizer` of the
            file is taken off. None keeps all.

    Returns:
        A `keras.Model`.

    Raises:
        LegacyModelError: if the file is none of these, is corrupt, or holds what
            Keras 3 has no counterpart for. The message says what.
        TypeError: if `custom_objects` is no dict by name.

    Example:
        >>> model = load_model("model_of_2020")  # a SavedModel folder
        >>> model.predict(x, verbose=0).shape
        (4, 4)
        >>> load_model("model_of_2020", dtype_policy="float32").dtype_policy
        <DTypePolicy "float32">
    """
    policy = checked_policy(dtype_policy)
    try:
        return _load_legacy(path, custom_objects, compile, safe_mode, policy)
    except Keras3ModelError:
        if policy is not None:
            raise LegacyModelError(
                f"{path}: written by Keras 3; dtype_policy is for legacy models. Load "
                "it without, and set the dtype_policy of its layers."
            ) from None
    with _named_for_keras(path) as named:
        return keras.models.load_model(named, custom_objects, compile, safe_mode)


def _load_legacy(path, custom_objects, compile, safe_mode, policy):
    near_misses.check(path)
    with (
        readers.read(path) as legacy,
        keras_internals.custom_object_scope(checked_objects(custom_objects)),
    ):
        planned = plan.make(legacy, policy, safe_mode, compile)
        planned.raise_if_missing()
        with progress.bar(f"Loading {path}", legacy.size) as advance:
            return build.build(planned, compile, safe_mode, advance)


@contextlib.contextmanager
def _named_for_keras(path):
    """Yield the path, or a link to it with the ending that Keras 3 asks for."""
    path = pathlib.Path(path)
    if path.is_dir():
        yield path
        return
    is_archive = readers.is_archive(path)
    if path.suffix in ((".keras",) if is_archive else (".h5", ".hdf5")):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        link = pathlib.Path(folder, "model.keras" if is_archive else "model.h5")
        os.symlink(path.resolve(), link)
        yield link


def load_weights(model: keras.Model, path: Path) -> None:
    """Give a model the weights of a legacy file: all of them, or none.

    Args:
        model: `keras.Model`, built.
        path: str or path: an HDF5 file of weights or of a whole model, the prefix of
            a checkpoint (`save_weights(save_format="tf")`, `tf.train.Checkpoint`), or
            a SavedModel folder.

    Raises:
        LegacyModelError: if the file cannot be read, or its weights do not fit; the
            message names what does not, with both shapes. The model is unchanged.

    Example:
        >>> model = load_model("model_of_2020", compile=False)
        >>> load_weights(model, "weights_of_2020.h5")
    """
    if not model.built:
        raise LegacyModelError(
            f"{path}: the model {model.name!r} has no weights yet, so nothing can be "
            "compared. Call it on a batch, or model.build(input_shape), first."
        )
    near_misses.check(path, weights=True)
    with weights_only.read(path) as by_layer, corrupt(path):
        named = weights.in_order(model, by_layer, path)
        pairs = weights.match_model(model, named, str(path))
        # Read, with checksums, before anything is changed.
        values = [weights.value_for(*pair) for pair in pairs]
    for (variable, _), value in zip(pairs, values, strict=True):
        variable.assign(value)
    weights.settle(model)
