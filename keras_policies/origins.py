"""Where a layer's policy came from, as far as it can be known.

Keras does not record it, so a layer's constructor does from the import of this package
on. A config (of a file, of `clone_model`, of the copies that a Bidirectional makes) has
the policy in it, but not where that came from.
"""

from typing import NamedTuple

import keras

from keras_policies import keras_internals

PolicyMap = keras.dtype_policies.DTypePolicyMap

# Beside the attributes of the layer's class; TensorFlow does not track this prefix.
_RECORD = "_self_keras_policies_origin"


class Creation(NamedTuple):
    """Whether a constructor was given a dtype, and the policy that it then took."""

    is_given: bool
    is_read: bool
    policy: keras.DTypePolicy


def record(layer, is_given, is_read):
    """Record how a layer got its policy."""
    policy = keras_internals.held_policy(layer)
    vars(layer)[_RECORD] = Creation(is_given, is_read, policy)


def keep(layer):
    """Leave the origin as it is, when this package has replaced the policy."""
    created = vars(layer).get(_RECORD)
    if created is not None:
        record(layer, created.is_given, created.is_read)


def is_given(layer):
    """Return whether a layer's constructor was given a dtype, as far as is known."""
    created = vars(layer).get(_RECORD)
    return created is None or created.is_given


def origin_of(layer, parent=None):
    """Return where a layer's policy came from.

    Args:
        layer: `keras.Layer`.
        parent: the layer that it is part of, or None.

    Returns:
        str, the first of these that is true, and the entry of a `DTypePolicyMap`:

        - `"unknown"`: the layer was made before this package was imported.
        - `"set later"`: the layer's `dtype_policy` was assigned, or it was quantized.
        - `"global"`: no `dtype=` was given; the global policy of that moment.
        - `"parent"`: given the very dtypes of the layer (no model) that it is part of.
        - `"config"`: made from a config.
        - `"own"`: given as `dtype=`, also by a `from_config` called by hand.

    Example:
        >>> origin_of(keras.layers.Dense(2))
        'global'
        >>> origin_of(keras.layers.Dense(2, dtype="float16"))
        'own'
    """
    found = _plain_origin(layer, parent)
    policy = keras_internals.held_policy(layer)
    return found + _entry(layer, policy) if isinstance(policy, PolicyMap) else found


def _plain_origin(layer, parent):
    created = vars(layer).get(_RECORD)
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


def _dtypes(layer):
    policy = keras_internals.own_policy(layer)
    return policy.compute_dtype, policy.variable_dtype, policy.quantization_mode


def _entry(layer, policies):
    own = keras_internals.own_policy(layer)
    keys = [key for key, policy in policies.items() if policy is own]
    return f", map's {keys[0]!r}" if keys else ", map's default"


def install():
    """Let constructors of layers record."""
    keras_internals.after_layer_init(record)
