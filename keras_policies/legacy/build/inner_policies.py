"""The policies of the layers that a user's own layers and models make by code.

No config of Keras 3 has them. A SavedModel records them in its graph of objects
(`recorded_policies.py`).
"""

import keras

from keras_policies import keras_internals, origins
from keras_policies.legacy.build import targets
from keras_policies.legacy.build.own_classes import is_stock


def mend(model, recorded, wanted):
    """Give layers made by code the policies that a file records, where that is safe.

    Args:
        model: `keras.Model`, built.
        recorded: `{path: dtype as written}`.
        wanted: callable, gives the policy that a `dtype` becomes.

    Returns:
        list of str, the layers that keep another policy than the file's, with both.
    """
    different = []
    for layer, paths in _made_by_code(model):
        written = next((recorded[path] for path in paths if path in recorded), None)
        policy = written and _floating(wanted(written))
        own = _floating(keras_internals.own_policy(layer))
        if not policy or not own or policy.name == own.name:
            continue
        if _can_take(layer, own, policy):
            keras_internals.set_own_policy(layer, policy)
            origins.keep(layer)
        else:
            different.append(f"{paths[0]!r} ({own.name}, recorded {policy.name})")
    return different


def unrecorded(model):
    """Return what is to be known of a `.keras` file of a model, in sentences.

    Keras 3 records no policies of layers that a class makes by code.
    """
    lost = dict.fromkeys(
        f"{paths[0]!r} ({policy.name})"
        for layer, paths in _made_by_code(model)
        if (policy := _floating(keras_internals.own_policy(layer)))
        and policy.name != keras.config.floatx()
        and not origins.is_given(layer)
    )
    if not lost:
        return []
    return [
        f"the policies of {', '.join(lost)}, which a class of your own makes without "
        "dtype=: where the new file is opened they take the global policy, "
        "keras.config.set_dtype_policy(...)"
    ]


def _made_by_code(model):
    """Yield `(layer, paths)` below layers and models of classes not Keras's own."""
    own = []
    for layer, paths in targets.layers(model):
        if any(paths[0].startswith(beginning) for beginning in own):
            yield layer, paths
        if not is_stock(layer):
            own.append(f"{paths[0]}/" if paths[0] else "")


def _floating(policy):
    """Return a policy of floats, or None for any other."""
    if isinstance(policy, str):
        policy = keras.DTypePolicy(policy)
    dtype = getattr(policy, "compute_dtype", None)
    return policy if dtype and keras.backend.is_float_dtype(dtype) else None


def _can_take(layer, own, policy):
    """Return whether a policy can replace one that nobody gave: no part depends on it.

    Parts of a layer have policies of their own, and weights their dtype.
    """
    is_alone = len(keras_internals.sublayers(layer)) == 1
    same_weights = not layer.weights or own.variable_dtype == policy.variable_dtype
    return (
        same_weights
        and (is_alone or not is_stock(layer))
        and not origins.is_given(layer)
    )
