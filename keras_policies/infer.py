"""How a layer with a deferred policy gets its dtype.

A layer settles, once, on the first of these that happens:

- It is called: on the dtype of the first tensor among the call's arguments, in
  the order in which Keras flattens them. An integer or boolean tensor says
  nothing about weights, so a layer that creates floating-point ones settles on
  `floatx`, and only a layer without any on that dtype itself.
- It creates a weight before any call, because another layer builds it or a user
  does: on the compute dtype of the nearest enclosing layer that has one, else
  on `floatx`.
"""

import contextlib
import threading

import keras

from keras_policies import keras_internals, origins
from keras_policies.policy import Policy

_called_on_integers = threading.local()


def _is_deferred(layer):
    policy = keras_internals.own_policy(layer)
    return isinstance(policy, Policy) and policy.is_deferred


def settle(layer, dtype):
    """Settle `layer` on a dtype name, if its policy is a deferred one."""
    if _is_deferred(layer):
        policy = keras_internals.own_policy(layer)
        keras_internals.set_own_policy(layer, policy.settle(dtype))
        origins.keep(layer)
        for part in keras_internals.parts_never_called(layer):
            settle(part, dtype)


def settle_on_call(layer, args, kwargs):
    """Settle a layer that is about to be called."""
    if not _is_deferred(layer):
        return
    dtype = keras_internals.first_dtype((args, kwargs))
    if dtype is None:
        return
    if not keras.backend.is_float_dtype(dtype) and not layer.built:
        with _mark_called_on_integers(layer):
            keras_internals.build_for(layer, args, kwargs)
    settle(layer, dtype)


def settle_on_weight(layer, dtype):
    """Settle a layer that is about to create a weight, and those it is part of.

    Args:
        layer: the layer.
        dtype: the dtype asked for, or None for the layer's own.
    """
    if not _is_deferred(layer):
        return
    if dtype is not None and not keras.backend.is_float_dtype(
        keras.backend.standardize_dtype(dtype)
    ):
        return
    waiting, found = [], keras.config.floatx()
    for candidate in [layer, *keras_internals.enclosing_layers()]:
        if _is_deferred(candidate):
            waiting.append(candidate)
            if candidate in _marked():
                break
            continue
        compute_dtype = keras_internals.own_policy(candidate).compute_dtype
        if keras.backend.is_float_dtype(compute_dtype):
            found = compute_dtype
            break
    for candidate in waiting:
        settle(candidate, found)


def keep_deferred(original, clone):
    """Give the clone of a layer with a deferred policy that policy again."""
    if _is_deferred(original):
        clone.dtype_policy = original.dtype_policy
        origins.keep(clone)


@contextlib.contextmanager
def _mark_called_on_integers(layer):
    marked = _marked()
    marked.append(layer)
    try:
        yield
    finally:
        marked.remove(layer)


def _marked():
    if not hasattr(_called_on_integers, "layers"):
        _called_on_integers.layers = []
    return _called_on_integers.layers


def install():
    """Let Keras ask this module before layers are called and weights created."""
    keras_internals.before_layer_call(settle_on_call)
    keras_internals.before_weight(settle_on_weight)
    keras_internals.before_sequential_build(settle)
    keras_internals.after_bidirectional_init(keep_deferred)
