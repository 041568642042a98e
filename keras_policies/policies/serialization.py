"""How policies are written to files, and how legacy policies are read from them.

| in memory | in the file |
|---|---|
| `Policy("mixed_float16", loss_scale=anything)` | `{"name": "mixed_float16"}` |
| an infer policy settled on float16 | `{"name": "float16"}` |
| an unsettled infer policy | `{"name": None}`: read back as the global policy |
| `float16_with_float32_vars` | `{"name": "mixed_float16"}` |
| another `<dtype>_with_float32_vars` | `{"name": "<dtype>"}`, with a warning |

`Policy.get_config` returns the second column. The class written is
`keras.DTypePolicy`, so no file names this package.
"""

import contextlib
import copy
import functools
import os
import warnings
from collections.abc import Callable
from typing import Any

import keras

from keras_policies import keras_internals
from keras_policies._common.types import Config, Path, Tensor
from keras_policies.policies import names as policy_names
from keras_policies.policies.global_policy import with_its_loss_scale
from keras_policies.policies.policy import Policy, plain_config


class Policy21:
    """Reads the `Policy` configs of tf.keras 2.1 to 2.15."""

    legacy_name = "Policy"

    @classmethod
    def from_config(cls, config: Config) -> keras.DTypePolicy | str:
        """Return the plain policy of `{"name": str}`; a `"loss_scale"` is dropped."""
        if keras_internals.as_stock or not _is_of_policy(config):
            return cls.legacy_name  # as Keras does, which knows no such class
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain = plain_config(Policy(config["name"], loss_scale=None))
        return keras.DTypePolicy.from_config(plain)


class PolicyV1(Policy21):
    """Reads the `PolicyV1` configs of tf.keras 2.4."""

    legacy_name = "PolicyV1"


READERS = {reader.legacy_name: reader for reader in (Policy21, PolicyV1)}


def _is_of_policy(config: Any) -> bool:
    """Return whether a config is that of a dtype policy of tf.keras."""
    name = config.get("name") if isinstance(config, dict) else None
    if isinstance(name, str) and config.keys() <= {"name", "loss_scale"}:
        with contextlib.suppress(ValueError):
            return bool(policy_names.dtypes_of(policy_names.full_name(name)))
    return False


def _reader_of(written: Any) -> type[Policy21] | None:
    """Return the reader of a serialized object; None if it is not a tf.keras policy."""
    if not isinstance(written, dict) or not _is_of_policy(written.get("config")):
        return None
    return READERS.get(str(written.get("class_name")))


def _policy_named(name: Any) -> keras.DTypePolicy | None:
    """Return the policy for a (quantized) name that only we know, or None."""
    policy = keras.config.dtype_policy()
    if isinstance(policy, Policy) and policy.name == name:
        return policy
    with contextlib.suppress(TypeError, ValueError):
        mode, separator, source = str(name).partition("_from_")
        if separator and policy_names.source_name(source) != source:
            name = f"{mode}_from_{policy_names.source_name(source)}"
            return keras.dtype_policies.get(name)
        return Policy(name)
    return None


@keras_internals.replaces("keras.DTypePolicy.from_config")
def _policy_from_config(
    stock: keras_internals.Function, cls: type, config: Config
) -> keras.DTypePolicy:
    # Keras takes the name of the global policy, which may be one that only we know.
    if cls is keras.DTypePolicy and config.get("name") is None:
        policy = keras.config.dtype_policy()
        is_ours = isinstance(policy, Policy)
        if is_ours and plain_config(policy)["name"] != policy.name:
            return policy
    return stock(cls, config)


def hard_sigmoid(x: Tensor) -> Tensor:
    """Return `clip(0.2 * x + 0.5, 0, 1)`, the hard_sigmoid of tf.keras.

    The `hard_sigmoid` of Keras 3, `relu6(x + 3) / 6`, would change what a model
    predicts. A file whose model uses this function therefore names it, and opens only
    where this package is imported.
    """
    return keras.ops.clip(0.2 * x + 0.5, 0.0, 1.0)


keras.saving.register_keras_serializable("keras_policies")(hard_sigmoid)


def _names_legacy_policy(config: Any) -> bool:
    """Return whether a `dtype` anywhere in a config is a policy of tf.keras."""
    if isinstance(config, list | tuple):
        return any(map(_names_legacy_policy, config))
    if not isinstance(config, dict):
        return False
    is_legacy = _reader_of(config.get("dtype")) is not None
    return is_legacy or any(map(_names_legacy_policy, config.values()))


@keras_internals.replaces("keras.Sequential.from_config")
@keras_internals.replaces("keras.Model.from_config")
def _model_from_config(
    stock: keras_internals.Function, cls: type, config: Config, *args: Any, **k: Any
) -> keras.Model:
    """Return a model, from a config converted to Keras 3 if Keras cannot read it.

    A file holds a plain policy and no loss scale. If the global policy is one of ours
    for the same dtypes, it replaces the plain one.
    """

    def make(config: Config) -> keras.Model:
        return stock(cls, config, *args, **k)

    if _names_legacy_policy(config):
        class_name = "Sequential" if issubclass(cls, keras.Sequential) else "Model"
        model = keras_internals.second_try(
            lambda: make(copy.deepcopy(config)),
            lambda: _from_tf_keras(class_name, config),
        )
    else:
        model = make(config)
    if isinstance(model, keras.Model):
        _take_global_loss_scale(model)
    return model


@keras_internals.replaces("keras.Model.compile_from_config")
def _compile_from_config(
    stock: keras_internals.Function, model: keras.Model, config: Config
) -> None:
    """Compile a model from a file; its class may have a `from_config` of its own."""
    _take_global_loss_scale(model)
    stock(model, config)


def _take_global_loss_scale(model: keras.Model) -> None:
    """Give a model from a file, which has a plain policy, the global `Policy`."""
    held = keras_internals.held_policy(model)
    policy = with_its_loss_scale(held)
    if policy is not held:
        keras_internals.set_own_policy(model, policy)


@keras_internals.needs(keras_internals.READING)
def _from_tf_keras(class_name: str, config: Config) -> keras.Model:
    """Return a model with new weights for a config of tf.keras."""
    from keras_policies.legacy.assembly import build
    from keras_policies.legacy.base.model import LegacyModel, LegacyOptimizerState
    from keras_policies.legacy.plan import plan

    legacy = LegacyModel(
        path=f"the config of a {class_name}",
        format="config",
        written_by="Keras unknown",
        config=copy.deepcopy({"class_name": class_name, "config": config}),
        records_policies=True,
        weights={},
        has_weights=False,
        training_config=None,
        optimizer=LegacyOptimizerState(),
    )
    planned = plan.make(legacy)
    planned.raise_if_missing()
    return build.build(planned, compile=False).model


def _load_from_hdf5(
    stock: Callable[..., keras.Model], filepath: Path, **options: Any
) -> keras.Model:
    """Load an HDF5 file with plain Keras, or else ours if it has a legacy policy."""
    from keras_policies.legacy import loading
    from keras_policies.legacy.readers import hdf5

    first = functools.partial(stock, filepath, **options)
    with contextlib.suppress(OSError, ValueError):  # Keras says what is wrong with it
        if isinstance(filepath, str | os.PathLike) and hdf5.is_mixed(filepath):
            second = functools.partial(loading.load_model, filepath, **options)
            first = functools.partial(keras_internals.second_try, first, second)
    return first()


@keras_internals.replaces("keras.saving.load_model")
@keras_internals.replaces("keras.models.load_model")
def _load_model(
    stock: keras_internals.Function, filepath: Any, *args: Any, **kwargs: Any
) -> keras.Model:
    try:
        return stock(filepath, *args, **kwargs)
    except (TypeError, ValueError) as error:
        with contextlib.suppress(Exception):  # the error is that of Keras
            from keras_policies.legacy import inspection
            from keras_policies.legacy.readers import sources

            if os.path.exists(filepath) and (
                sources.is_saved_model(filepath)
                or inspection.inspect_model(filepath).format != "H5"  # Keras reads that
            ):
                opening = f"keras_policies.load_model({str(filepath)!r})"
                note = f"To open it as an ordinary Keras 3 model, use `{opening}`."
                keras_internals.add_note(error, note)
        raise


keras_internals.save_class_as(Policy, "keras.DTypePolicy")
LOST_MODULES = "keras.mixed_precision", "keras.dtype_policies"
keras_internals.read_lost_classes("dtype_policies", LOST_MODULES, READERS)
keras_internals.read_lost_class(_reader_of)
keras_internals.read_policy_name(_policy_named)
keras_internals.around_load_from_hdf5(_load_from_hdf5)
