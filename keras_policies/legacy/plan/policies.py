"""Reads the policies in legacy configs and converts them for Keras 3.

A layer's `dtype` is a name (`"float32"`), or a config: class `Policy` (2.1 to 2.3
with a loss scale, 2.4 and on without) or `PolicyV1` (2.4 to 2.8, with one).
"""

import collections
import importlib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from keras_policies._common import keras_names
from keras_policies._common.lazy_keras import keras
from keras_policies._common.types import PolicyLike
from keras_policies.legacy.base.configs import beginnings_among, dicts, policy_name
from keras_policies.legacy.base.model import LegacyModel
from keras_policies.loss_scaling import loss_scale as loss_scales
from keras_policies.loss_scaling.loss_scale import LossScale
from keras_policies.policies import names as policy_names

if TYPE_CHECKING:
    from keras_policies.policies.policy import Policy

MIXED = "mixed_float16", "mixed_bfloat16"


class Written(NamedTuple):
    """A policy of tf.keras, as a file has it."""

    name: str
    dtypes: policy_names.Dtypes
    loss_scale: LossScale | None


def _written(dtype: Any) -> Written:
    config: Any = dtype.get("config") or {} if isinstance(dtype, dict) else None
    name = dtype if config is None else config.get("name")
    if not isinstance(name, str):
        raise TypeError(f"a policy's name is {name!r}, expected a string")
    name = policy_names.full_name(name)
    scale = policy_names.AUTO[0] if config is None else config.get("loss_scale", "auto")
    scale = policy_names.auto(name) if scale in policy_names.AUTO else scale
    return Written(name, policy_names.dtypes_of(name), loss_scales.get(scale))


def _deferred(name: str) -> PolicyLike:
    """Return a deferred `Policy`, or its name where nothing can be built (no Keras)."""
    if not keras_names.is_imported():
        return name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the name is deprecated; the file is old
        return _policy_class()(name, None)


def _policy_class() -> "type[Policy]":
    """Return the class `Policy`, whose module imports Keras."""
    cls: type[Policy] = importlib.import_module("keras_policies.policies.policy").Policy
    return cls


def loss_scale_of(dtype: Any) -> LossScale | None:
    """Return the `LossScale` of a policy of the experimental API; a name has none."""
    return _written(dtype).loss_scale if isinstance(dtype, dict) else None


def dtypes_of(dtype: Any) -> tuple[str | None, str | None]:
    """Return `(compute dtype, variable dtype)`, None where they are not known."""
    if policy_name(dtype) is None:
        return None, None
    return _written(dtype).dtypes


def variable_dtype(dtype: Any) -> str:
    """Return the dtype of a layer's variables, `"float32"` where it is not known."""
    return dtypes_of(dtype)[1] or "float32"


def plain(dtype: Any) -> PolicyLike | None:
    """Return what a legacy `dtype` becomes: a name, a deferred policy, or None.

    The loss scale is dropped. A deferred policy stays one of ours until its layer has
    been called, so that the layer takes its dtype from its input, as in tf.keras. Raise
    ValueError if tf.keras has no such policy.
    """
    if policy_name(dtype) is None:
        return None
    name, dtypes, _ = _written(dtype)
    if dtypes.compute is None:
        return _deferred(name)
    return policy_names.stock_name(name, dtypes)


def with_float32_variables(policy: PolicyLike | None) -> PolicyLike | None:
    """Return the policy of a BatchNormalization, whose variables were never half.

    Source: `_param_dtype` in keras/layers/normalization/batch_normalization.py of 2.15.
    """
    name = policy if isinstance(policy, str) else getattr(policy, "name", None)
    return f"mixed_{name}" if name in ("float16", "bfloat16") else policy


def compute_dtypes(policy: PolicyLike | None) -> set[str | None]:
    """Return the compute dtypes of a policy or a map; None if a dtype is not known."""
    if isinstance(policy, str):
        return {dtypes_of(policy)[0]}
    if isinstance(policy, keras.dtype_policies.DTypePolicyMap):
        inner = [policy.default_policy, *policy.values()]
        return {dtype for item in inner for dtype in compute_dtypes(item)}
    return {getattr(policy, "compute_dtype", None)}


def compute_dtype(policy: PolicyLike | None, name: str) -> str | None:
    """Return the compute dtype of the layer of a name; None if it is not known."""
    if policy is None or isinstance(policy, str):  # Keras is not imported for a name
        return dtypes_of(policy or "float32")[0]
    if isinstance(policy, keras.dtype_policies.DTypePolicyMap):
        policy = policy[name]
    return getattr(policy, "compute_dtype", None)


def may_be_float16(policy: PolicyLike | None) -> bool:
    """Return whether a layer with a policy computes in float16, or may do so later."""
    return policy is not None and bool(compute_dtypes(policy) & {None, "float16"})


def resolved(policy: "Policy") -> "keras.DTypePolicy":
    """Return the plain `keras.DTypePolicy` of a resolved policy of ours."""
    return keras.DTypePolicy.from_config(policy.get_config())


def most_common_mixed(dtypes: Iterable[Any]) -> Any:
    """Return the `dtype` of a mixed policy that most layers carry, or None.

    H5 and `.keras` files do not record the model's own policy, but its layers usually
    have the same: both come from the global policy.
    """
    mixed = [dtype for dtype in dtypes if policy_name(dtype) in MIXED]
    if not mixed:
        return None
    ((name, _),) = collections.Counter(map(policy_name, mixed)).most_common(1)
    return next(dtype for dtype in mixed if policy_name(dtype) == name)


def written_in(legacy: LegacyModel) -> Iterator[Any]:
    """Return each `dtype` in the configs of a file, as written."""
    layers = legacy.traced.layers.values() if legacy.traced else ()
    written = dicts([legacy.config, *(layer.config for layer in layers)])
    return (each["dtype"] for each in written if each.get("dtype") is not None)


def by_model(dtypes: Mapping[str, Any], models: Iterable[str]) -> dict[str, list[Any]]:
    """Return `{path of a model: dtypes of the layers in it}`, from those by path."""
    dtypes_of_models: dict[str, list[Any]] = {model: [] for model in models}
    models_around = beginnings_among(dtypes_of_models)
    for path, dtype in dtypes.items():
        for model in models_around(path):
            if model != path:
                dtypes_of_models[model].append(dtype)
    return dtypes_of_models


def checked_policy(dtype_policy: PolicyLike | None) -> "keras.DTypePolicy | None":
    """Return the policy object that a user asks for; an unknown name is an error."""
    if dtype_policy is None:
        return None
    if isinstance(dtype_policy, str):
        return resolved(_policy_class()(dtype_policy, loss_scale=None))
    expected = keras.DTypePolicy | keras.dtype_policies.DTypePolicyMap
    if not isinstance(dtype_policy, expected):
        raise TypeError(
            "dtype_policy must be the name of a policy, a keras.DTypePolicy or a "
            f"DTypePolicyMap, received {dtype_policy!r}."
        )
    return dtype_policy
