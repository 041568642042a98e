"""How a layer came to be: whether its constructor was given a dtype, or a config."""

from collections.abc import Callable
from typing import Any

import keras
from keras.src.models import cloning
from keras.src.saving import serialization_lib

from keras_policies.keras_internals.saving import refuse_lost_policy
from keras_policies.keras_internals.wrapping import Function, Inside, instead_of

_a_config = Inside()


def after_layer_init(hook: Callable[[keras.Layer, bool, bool], None]) -> None:
    """Call `hook(layer, is_given, is_read)` once a layer has its policy.

    `is_given` says whether the constructor of `keras.Layer` got a `dtype`, `is_read`
    whether the layer is being made from a config. Keras: src/layers/layer.py.
    """
    _count_configs()

    @instead_of(keras.Layer, "__init__")
    def __init__(stock: Function, self: keras.Layer, *args: Any, **kwargs: Any) -> None:
        refuse_lost_policy(kwargs.get("dtype"))
        stock(self, *args, **kwargs)
        hook(self, kwargs.get("dtype") is not None, _a_config.depth > 0)


def _count_configs() -> None:
    """Count how many configs are being read, or layers being cloned by their configs.

    Keras: src/saving/serialization_lib.py, `deserialize_keras_object` enters a scope
    for each config. (Its own flag cannot be used: it says nothing once a user has
    called `enable_unsafe_deserialization`.) src/models/cloning.py, `clone_model`.
    """

    @instead_of(serialization_lib.SafeModeScope, "__enter__")
    def __enter__(stock: Function, scope: Any) -> Any:
        _a_config.__enter__()
        return stock(scope)

    @instead_of(serialization_lib.SafeModeScope, "__exit__")
    def __exit__(stock: Function, scope: Any, *error: Any) -> Any:
        _a_config.__exit__()
        return stock(scope, *error)

    @instead_of(cloning, "_wrap_clone_function")
    def wrap_clone(stock: Function, function: Any, *args: Any, **kwargs: Any) -> Any:
        clone = stock(function, *args, **kwargs)

        def counted(layer: keras.Layer) -> keras.Layer:
            with _a_config:
                return clone(layer)

        return counted if function is None else clone  # a function of the user's own
