"""Seams: places where Keras is made to ask this package.

Wrapping twice (a module reloaded) replaces the first wrapper, so importing the package
twice changes nothing.
"""

import functools
import inspect

import keras
from keras.src.saving import serialization_lib
from keras.src.trainers.trainer import Trainer

from keras_policies.keras_internals.layers import (
    PolicyMap,
    first_dtype,
    no_automatic_dependency_tracking,
    own_policy,
    sublayers,
)


def wrap(owner, attribute, make_wrapper):
    """Replace `owner.attribute` by `make_wrapper(stock)`, once.

    Args:
        owner: class or module.
        attribute: str, the name of a function in it; `places` has looked at it.
        make_wrapper: callable, takes the stock function, returns a new one.
    """
    current = getattr(owner, attribute)
    stock = getattr(current, "_keras_policies_stock", current)
    wrapper = functools.wraps(stock)(make_wrapper(stock))
    # Keras reads constructors with inspect.getfullargspec, which does not unwrap.
    wrapper.__signature__ = inspect.signature(stock)
    wrapper._keras_policies_stock = stock
    setattr(owner, attribute, wrapper)


def before_layer_call(hook):
    """Call `hook(layer, args, kwargs)` before a layer whose dtype is not settled.

    Keras: src/layers/layer.py, `Layer.__call__`. A layer with any other policy
    pays for one dict lookup and one comparison.
    """

    def make_wrapper(stock):
        def __call__(self, *args, **kwargs):
            policy = self.__dict__.get("_dtype_policy")
            if policy is not None and (
                policy.compute_dtype is None or isinstance(policy, PolicyMap)
            ):
                hook(self, args, kwargs)
            return stock(self, *args, **kwargs)

        return __call__

    wrap(keras.Layer, "__call__", make_wrapper)


def before_weight(hook):
    """Call `hook(layer, dtype)` before a layer creates a weight.

    Keras: src/layers/layer.py, `Layer.add_weight`. `dtype` is the one asked for,
    or None for the layer's variable dtype.
    """

    def make_wrapper(stock):
        signature = inspect.signature(stock)

        def add_weight(self, *args, **kwargs):
            # Without super().__init__() there is none, and Keras says so.
            policy = "_dtype_policy" in self.__dict__ and own_policy(self)
            if policy and policy.compute_dtype is None:
                bound = signature.bind(self, *args, **kwargs).arguments
                # Newer Keras takes (shape, initializer, dtype) in *args.
                positional = bound.get("args", ())
                dtype = positional[2] if len(positional) > 2 else bound.get("dtype")
                hook(self, dtype)
            return stock(self, *args, **kwargs)

        return add_weight

    wrap(keras.Layer, "add_weight", make_wrapper)


def before_sequential_build(hook):
    """Call `hook(first_layer, dtype)` before a called Sequential builds itself.

    Keras: src/models/sequential.py, `Sequential.build` makes an input of its
    first layer's compute dtype, whatever it was called on.
    """

    def make_wrapper(stock):
        def _maybe_build(self, call_spec):
            if not self.built and self.layers:
                dtype = first_dtype([call_spec.first_arg])
                if dtype is not None:
                    hook(self.layers[0], dtype)
            return stock(self, call_spec)

        return _maybe_build

    wrap(keras.Sequential, "_maybe_build", make_wrapper)


def after_bidirectional_init(hook):
    """Call `hook(original, clone)` for each pair of layers in a Bidirectional.

    Keras: src/layers/rnn/bidirectional.py clones its layer through the config,
    where a deferred policy has no name.
    """

    def make_wrapper(stock):
        def __init__(self, layer, *args, **kwargs):
            stock(self, layer, *args, **kwargs)
            given = inspect.signature(stock).bind(self, layer, *args, **kwargs)
            clones = [self.forward_layer]
            if given.arguments.get("backward_layer") is None:
                clones.append(self.backward_layer)
            for clone in clones:
                pairs = zip(sublayers(layer), sublayers(clone), strict=True)
                for original, copied in pairs:
                    hook(original, copied)

        return __init__

    wrap(keras.layers.Bidirectional, "__init__", make_wrapper)


def around_compile(hook):
    """Run `hook(model, compile_model, auto_scale_loss)` in place of `compile`.

    `compile_model(auto_scale_loss)` is stock `compile` with the user's other
    arguments. Keras: src/trainers/trainer.py, `Trainer.compile`.
    """

    def make_wrapper(stock):
        signature = inspect.signature(stock)

        @no_automatic_dependency_tracking
        def compile(self, *args, **kwargs):
            given = signature.bind(self, *args, **kwargs)
            asked_for = given.arguments.get("auto_scale_loss", True)

            def compile_model(auto_scale_loss):
                given.arguments["auto_scale_loss"] = auto_scale_loss
                return stock(*given.args, **given.kwargs)

            return hook(self, compile_model, asked_for)

        return compile

    wrap(Trainer, "compile", make_wrapper)


def record_no_auto_scale_loss(model):
    """Make a saved `model` be compiled with `auto_scale_loss=False`.

    Keras: src/trainers/trainer.py does not record that argument itself.
    """
    config = {**model._compile_config.config, "auto_scale_loss": False}
    model._compile_config = serialization_lib.SerializableDict(**config)
