"""Where a layer's policy came from, as far as it can be known.

Keras does not record it; once this package is imported, the constructors of layers do.
A config (of a file, of `clone_model`, of the copies that a Bidirectional makes) holds
the policy, but not where it came from.
"""

from typing import NamedTuple

import keras

from keras_policies import keras_internals
from keras_policies.policies.global_policy import with_its_loss_scale

# An attribute of the layer. TensorFlow does not track names with this prefix.
_RECORD = "_self_keras_policies_origin"


class Creation(NamedTuple):
    """How a layer got its policy."""

    is_given: bool  # whether its constructor was given a dtype
    is_read: bool  # whether the layer was made from a config
    policy: keras.DTypePolicy  # the one that the layer then had


def _created(layer: keras.Layer) -> Creation | None:
    """Return what was recorded for a layer; None if it was made too early."""
    created: Creation | None = vars(layer).get(_RECORD)
    return created


def record(layer: keras.Layer, is_given: bool, is_read: bool) -> None:
    """Record how a layer got its policy."""
    policy = keras_internals.held_policy(layer)
    vars(layer)[_RECORD] = Creation(is_given, is_read, policy)


def _record_new(layer: keras.Layer, is_given: bool, is_read: bool) -> None:
    """Record how a new layer got its policy.

    The plain policy of a model that was read becomes the global `Policy` before, if
    the dtypes are the same: a file holds no loss scale.
    """
    if is_read and isinstance(layer, keras.Model):
        policy = with_its_loss_scale(keras_internals.held_policy(layer))
        keras_internals.set_own_policy(layer, policy)
    record(layer, is_given, is_read)


def keep(layer: keras.Layer) -> None:
    """Keep the recorded origin after this package has replaced the policy."""
    created = _created(layer)
    if created is not None:
        record(layer, created.is_given, created.is_read)


def is_given(layer: keras.Layer) -> bool:
    """Return whether a layer's constructor was given a dtype; True if unknown."""
    created = _created(layer)
    return created is None or created.is_given


def is_read(layer: keras.Layer) -> bool:
    """Return whether a layer was made from a config; False if unknown."""
    created = _created(layer)
    return created is not None and created.is_read


def origin_of(layer: keras.Layer, parent: keras.Layer | None = None) -> str:
    """Return where the policy of a layer, which may be part of a parent, came from.

    It is the first of these that is true, and the entry of a `DTypePolicyMap`:

    - `"unknown"`: the layer was made before this package was imported.
    - `"set later"`: the layer's `dtype_policy` was assigned, or it was quantized.
    - `"global"`: no `dtype=` was given; the global policy of that moment.
    - `"parent"`: part of a layer (not a model), and given the same dtypes.
    - `"config"`: made from a config.
    - `"own"`: given as `dtype=`, also by a `from_config` called by hand.

    Example:
        >>> origin_of(keras.layers.Dense(2))
        'global'
        >>> origin_of(keras.layers.Dense(2, dtype="float16"))
        'own'
    """
    return _plain_origin(layer, parent) + _entry(layer)


def _plain_origin(layer: keras.Layer, parent: keras.Layer | None) -> str:
    created = _created(layer)
    if created is None:
        return "unknown"
    if created.policy is not keras_internals.held_policy(layer):
        return "set later"
    if not created.is_given:
        return "global"
    is_part = parent is not None and not isinstance(parent, keras.Model)
    if is_part and _dtypes(parent) == _dtypes(layer):
        return "parent"
    return "config" if created.is_read else "own"


def _dtypes(layer: keras.Layer) -> tuple[str | None, ...]:
    policy = keras_internals.own_policy(layer)
    return policy.compute_dtype, policy.variable_dtype, policy.quantization_mode


def _entry(layer: keras.Layer) -> str:
    policies = keras_internals.held_policy(layer)
    if not isinstance(policies, keras.dtype_policies.DTypePolicyMap):
        return ""
    layer_policy = keras_internals.own_policy(layer)
    keys = [key for key, policy in policies.items() if policy is layer_policy]
    return f", map's {keys[0]!r}" if keys else ", map's default"


def install() -> None:
    """Let the constructors of layers record."""
    keras_internals.after_layer_init(_record_new)
