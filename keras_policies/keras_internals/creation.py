"""How a layer came to be: whether its constructor was given a dtype, or a config."""

import functools
import threading
from collections.abc import Callable
from typing import Any

import keras
from keras.src.models import cloning
from keras.src.saving import serialization_lib

from keras_policies.keras_internals.saving import refuse_lost_policy
from keras_policies.keras_internals.wrapping import Function, wrap


class _Reading(threading.local):
    """How many configs this thread is inside of."""

    depth = 0


_reading = _Reading()


def after_layer_init(hook: Callable[[keras.Layer, bool, bool], None]) -> None:
    """Call `hook(layer, is_given, is_read)` once a layer has its policy.

    `is_given` says whether the constructor of `keras.Layer` got a `dtype`, `is_read`
    whether the layer is being made from a config.

    Keras: src/layers/layer.py, `Layer.__init__`.
    """
    _count_readings()

    def make_wrapper(stock: Function) -> Function:
        def __init__(self: keras.Layer, *args: Any, **kwargs: Any) -> None:
            refuse_lost_policy(kwargs.get("dtype"))
            stock(self, *args, **kwargs)
            hook(self, kwargs.get("dtype") is not None, _reading.depth > 0)

        return __init__

    wrap(keras.Layer, "__init__", make_wrapper)


def _count_readings() -> None:
    """Count how many configs are being read, or layers being cloned by their configs.

    Keras: src/saving/serialization_lib.py, `deserialize_keras_object` enters a scope
    for each config. (Its own flag cannot be used: it says nothing once a user has
    called `enable_unsafe_deserialization`.) src/models/cloning.py, `clone_model`.
    """

    def count(step: int, stock: Function) -> Function:
        def counted(*args: Any) -> Any:
            _reading.depth += step
            return stock(*args)

        return counted

    for method, step in ("__enter__", 1), ("__exit__", -1):
        wrap(serialization_lib.SafeModeScope, method, functools.partial(count, step))
    wrap(cloning, "_wrap_clone_function", _count_clones)


def _count_clones(stock: Function) -> Function:
    def _wrap_clone_function(clone_function: Any, *args: Any, **kwargs: Any) -> Any:
        clone = stock(clone_function, *args, **kwargs)
        if clone_function is not None:  # a function of the user's own
            return clone

        def counted(layer: keras.Layer) -> keras.Layer:
            _reading.depth += 1
            try:
                return clone(layer)
            finally:
                _reading.depth -= 1

        return counted

    return _wrap_clone_function
