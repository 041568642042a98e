"""Gives a layer with a deferred policy its dtype.

A layer settles on a dtype once, at the first of these events:

- It is called. It takes the dtype of the first tensor among the call's arguments, in
  the order in which Keras flattens them. After a call on integers or booleans, a layer
  with floating-point weights settles on `floatx`; a layer without any takes the dtype
  of its input.
- It creates a weight before any call, because another layer or the user builds it. It
  takes the compute dtype of the nearest enclosing layer that has one, or `floatx`. A
  policy that names the weights' dtype, `infer_with_float32_vars`, waits for the call.
"""

import threading
from typing import Any

import keras

from keras_policies import keras_internals
from keras_policies.policies.policy import Policy

_called_on_integers = threading.local()


def _is_deferred(layer: keras.Layer) -> bool:
    policy = keras_internals.own_policy(layer)
    return isinstance(policy, Policy) and policy.is_deferred


def resolve(layer: keras.Layer, dtype: str) -> None:
    """Settle a layer on a dtype name, if its policy is deferred."""
    if _is_deferred(layer):
        _settle(layer, dtype)


@keras_internals.needs(keras_internals.INFER)
def _settle(layer: keras.Layer, dtype: str) -> None:
    policy = keras_internals.own_policy(layer)
    keras_internals.set_own_policy(layer, policy.resolve(dtype))
    for part in keras_internals.parts_never_called(layer):
        resolve(part, dtype)


def settle_on_call(
    layer: keras.Layer, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Settle a layer that is about to be called."""
    if not _is_deferred(layer):
        return
    dtype = keras_internals.first_dtype((args, kwargs))
    if dtype is None:
        return
    if not keras.backend.is_float_dtype(dtype):
        if not layer.built:
            _marked().append(layer)
            try:
                keras_internals.build_for(layer, args, kwargs)
            finally:
                _marked().remove(layer)
        if any(keras.backend.is_float_dtype(w.dtype) for w in layer.weights):
            dtype = keras.config.floatx()
    resolve(layer, dtype)


def settle_on_weight(layer: keras.Layer, dtype: Any) -> None:
    """Settle a layer that is about to create a weight, and the layers around it."""
    if not _is_deferred(layer):
        return
    named = None if dtype is None else keras.backend.standardize_dtype(dtype)
    if named is None or keras.backend.is_float_dtype(named):
        waiting, settled_dtype = _waiting_with(layer)
        if settled_dtype is None and keras_internals.own_policy(layer).variable_dtype:
            return
        for candidate in waiting:
            resolve(candidate, settled_dtype or keras.config.floatx())


def _waiting_with(layer: keras.Layer) -> tuple[list[keras.Layer], str | None]:
    """Return the layers that settle when a layer creates a weight, and their dtype.

    The dtype is that of an enclosing layer; None if no layer has one yet.
    """
    waiting = []
    for candidate in [layer, *keras_internals.enclosing_layers()]:
        if _is_deferred(candidate):
            waiting.append(candidate)
            if candidate in _marked():
                break
            continue
        dtype = keras_internals.own_policy(candidate).compute_dtype
        if keras.backend.is_float_dtype(dtype):
            return waiting, dtype
    return waiting, None


def _marked() -> list[keras.Layer]:
    """Return the layers that this thread builds because of a call on integers."""
    marked: list[keras.Layer] = vars(_called_on_integers).setdefault("layers", [])
    return marked


keras_internals.before_layer_call(settle_on_call)
keras_internals.before_weight(settle_on_weight)
keras_internals.before_sequential_build(resolve)
