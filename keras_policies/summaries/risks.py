"""Words on where a model's numerics are at risk, for `summary`.

Each is said only of what is known without running the model: a layer of your own that
calls `keras.ops.softmax`, or what a subclassed model gives out, cannot be seen. After a
semicolon stands what helps.
"""

import keras
import numpy as np

from keras_policies import keras_internals, origins
from keras_policies import loss_scale as loss_scales
from keras_policies.policy import Policy, auto

NARROW = {"float16", "bfloat16"}
# An update this small against its weight rounds to nothing: half of the last of
# 11 bits in float16, of 8 in bfloat16.
LOST = {"float16": "1/4096", "bfloat16": "1/512"}
OUTPUT = {
    "float16": "nothing above 65504, about 3 decimal digits",
    "bfloat16": "2 to 3 decimal digits",
}
ATTENTION = keras.layers.Attention, keras.layers.AdditiveAttention
HEADED = keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention
# Their exponentials grow out of range, and their sums lose the small ones.
ACTIVATIONS = {
    "softmax": keras.activations.softmax,
    "log_softmax": keras.activations.log_softmax,
    "exponential": keras.activations.exponential,
}
TAKE_FLOAT32 = "give the layer dtype='float32'"


def of_layer(layer, parent, scale):
    """Return the words on a layer.

    Args:
        layer: `keras.Layer`.
        parent: the layer around it.
        scale: the `LossScale` that applies to the model, or None.

    Returns:
        Tuple of str.
    """
    policy = keras_internals.own_policy(layer)
    dtype = policy.compute_dtype
    if dtype is None:
        return ("waits for its first input",)
    words = []
    if dtype in NARROW:
        seldom = _seldom(layer, parent)
        for name in _activations(layer):
            words.append(f"{name} in {dtype}{seldom}; {TAKE_FLOAT32}")
    words += [*_ops(layer), *_weights(layer)]
    if dtype == "float16" and _is_vain(policy, origins.origin_of(layer, parent), scale):
        words.append(
            f"its policy's {policy.loss_scale!r} is not used: the optimizer's counts"
        )
    return tuple(words)


def _activations(layer):
    """Return the names of the activations that a layer computes and that need range."""
    if isinstance(layer, (keras.layers.Softmax, *ATTENTION)):
        return ["softmax"]
    # `activation`, or whatever else it is called; an LSTM only passes on its cell's.
    held = list(vars(layer).values())
    return [
        name
        for name, function in ACTIVATIONS.items()
        if any(value is function for value in held)
    ]


def _seldom(layer, parent):
    """Return when a layer of attention heads takes the softmax that it is made of.

    Else it asks the backend for the whole of attention, whose softmax is float32.
    Keras: src/layers/attention/multi_head_attention.py.
    """
    always = not isinstance(parent, HEADED) or getattr(parent, "dropout", 0)
    return "" if always else ", where scores are asked for"


def _ops(model):
    """Yield a word for each call of `keras.ops` in a functional model's graph."""
    for function, name, dtype in keras_internals.op_calls(model):
        if dtype in NARROW:
            yield f"ops.{function} {name!r} in {dtype}; cast what it takes to float32"


def _weights(layer):
    dtypes = {v.dtype for v in keras_internals.own_variables(layer) if v.trainable}
    return [
        f"{dtype} weights: an update under {LOST[dtype]} of a weight is lost; "
        f"use 'mixed_{dtype}'"
        for dtype in sorted(dtypes & NARROW)
    ]


def _is_vain(policy, origin, scale):
    """Return whether a user gave a layer a loss scale that does not apply."""
    own = policy.loss_scale if isinstance(policy, Policy) else None
    is_given = origin.startswith("own") and own != loss_scales.get(auto(policy.name))
    return is_given and own not in (None, scale)


def of_model(model, computes, scale):
    """Return the words on a model as a whole.

    Args:
        model: `keras.Model`.
        computes: set of str, the compute dtypes of its layers that have weights.
        scale: the `LossScale` that applies, or None.

    Returns:
        Tuple of str.
    """
    words = [*_ops(model), *_outputs(model)]
    for dtype in sorted(_loss_dtypes(model) & NARROW):
        words.append(f"loss computed in {dtype}; give the loss dtype='float32'")
    if "float16" in computes and scale is None:
        words.append(
            "float16 without a loss scale: small gradients become zero; "
            "set_policy('mixed_float16') before the model is made or read, or compile "
            "with a LossScaleOptimizer"
        )
    return (*words, *_epsilon(model))


def _outputs(model):
    """Yield a word for each symbolic output that is narrow."""
    for tensor in keras_internals.flatten(getattr(model, "outputs", None) or []):
        dtype = keras.backend.standardize_dtype(tensor.dtype)
        if dtype in NARROW:
            maker = keras_internals.maker_of(tensor)
            is_layer = isinstance(maker, keras.Layer)
            by = f" of {maker.name}" if maker is not None else ""
            remedy = TAKE_FLOAT32 if is_layer else "cast it to float32"
            yield f"output{by} in {dtype}: {OUTPUT[dtype]}; {remedy}"


def _loss_dtypes(model):
    """Return the dtypes in which a compiled model's losses are computed."""
    losses = keras_internals.flatten(getattr(model, "loss", None))
    known = [loss for loss in losses if loss is not None]
    return {getattr(loss, "dtype", None) or keras.config.floatx() for loss in known}


def _epsilon(model):
    """Yield a word if what an optimizer adds to its divisors is zero in float16.

    Its slots have the dtypes of the weights.
    """
    optimizer = getattr(model, "optimizer", None)
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    epsilon = getattr(optimizer, "epsilon", None)
    is_narrow = any(v.dtype == "float16" for v in model.trainable_variables)
    if epsilon is not None and is_narrow and np.float16(epsilon) == 0:
        yield (
            f"{type(optimizer).__name__}'s epsilon {epsilon:g} is zero in float16: its "
            "updates divide by zero; give it epsilon=1e-4"
        )
