"""How a layer came to be: what its constructor was given, and its parts."""

import threading

import keras
from keras.src.models import cloning
from keras.src.ops import nn
from keras.src.ops import numpy as numpy_ops
from keras.src.saving import serialization_lib

from keras_policies.keras_internals.seams import wrap

# The operations of a functional model's graph that `op_calls` names, as in `keras.ops`.
OPS = {
    nn.LogSoftmax: "log_softmax",
    nn.Softmax: "softmax",
    numpy_ops.Exp: "exp",
    numpy_ops.Log: "log",
}

_reading = threading.local()


def after_layer_init(hook):
    """Call `hook(layer, is_given, is_read)` when a layer has its policy.

    `is_given` says whether the constructor of `keras.Layer` got a `dtype`, `is_read`
    whether the layer is being made from a config.

    Keras: src/layers/layer.py, `Layer.__init__`.
    """
    _count_readings()

    def make_wrapper(stock):
        def __init__(self, *args, **kwargs):
            stock(self, *args, **kwargs)
            is_given = kwargs.get("dtype") is not None
            hook(self, is_given, getattr(_reading, "depth", 0) > 0)

        return __init__

    wrap(keras.Layer, "__init__", make_wrapper)


def _count_readings():
    """Know whether a config is being read, or a layer cloned by its config.

    Keras: src/saving/serialization_lib.py, `deserialize_keras_object` enters a scope
    for each config; its own flag says nothing once a user has called
    `enable_unsafe_deserialization`. src/models/cloning.py, `clone_model`.
    """

    def count(step):
        def make_wrapper(stock):
            def counted(self, *args, **kwargs):
                _add(step)
                return stock(self, *args, **kwargs)

            return counted

        return make_wrapper

    wrap(serialization_lib.SafeModeScope, "__enter__", count(1))
    wrap(serialization_lib.SafeModeScope, "__exit__", count(-1))
    wrap(cloning, "_wrap_clone_function", _count_clones)


def _count_clones(stock):
    def _wrap_clone_function(clone_function, *args, **kwargs):
        clone = stock(clone_function, *args, **kwargs)
        if clone_function is not None:  # a function of the user's own
            return clone

        def counted(layer):
            _add(1)
            try:
                return clone(layer)
            finally:
                _add(-1)

        return counted

    return _wrap_clone_function


def _add(step):
    _reading.depth = getattr(_reading, "depth", 0) + step


def held_policy(layer):
    """Return a layer's policy object, which may be a `DTypePolicyMap`."""
    return layer._dtype_policy


def parts(layer):
    """Return the layers directly in a layer, but for the InputLayers of a model.

    Keras: src/layers/layer.py, `Layer._flatten_layers`.
    """
    if isinstance(layer, keras.Model):
        found = layer.layers
    else:
        found = layer._flatten_layers(include_self=False, recursive=False)
    return [part for part in found if not isinstance(part, keras.layers.InputLayer)]


def build_for_batch(model, x, y):
    """Build a compiled model, its losses and metrics, as the first step of `fit` does.

    Keras: src/trainers/trainer.py, `Trainer._symbolic_build`.
    """
    model._symbolic_build(data_batch=(x, y))


def maker_of(tensor):
    """Return the operation whose call made a symbolic tensor, or None.

    Keras: src/backend/common/keras_tensor.py.
    """
    history = getattr(tensor, "_keras_history", None)
    return history.operation if history is not None else None


def op_calls(model):
    """Return where the graph of a functional model calls some functions of `keras.ops`.

    Args:
        model: `keras.Model`; one that is not functional has no graph.

    Returns:
        List of `(function, name of the operation, dtype of its output)`, of str.

    Keras: src/ops/nn.py, src/ops/numpy.py, src/ops/node.py.
    """
    return [
        (OPS[type(operation)], operation.name, tensor.dtype)
        for operation in getattr(model, "operations", ())
        if type(operation) in OPS
        for tensor in operation._inbound_nodes[0].outputs
    ]
