"""Words on where a model's numerics are at risk, for `summary`.

Each is said only of what is known without running the model: a layer of your own that
calls `keras.ops.softmax`, or what a subclassed model gives out, cannot be seen.
"""

import keras

from keras_policies import keras_internals
from keras_policies.policy import Policy

NARROW = {"float16", "bfloat16"}
# An update this small against its weight rounds to nothing: half of the last of
# 11 bits in float16, of 8 in bfloat16.
LOST = {"float16": "1/4096", "bfloat16": "1/512"}
OUTPUT = {
    "float16": "nothing above 65504, 3 digits",
    "bfloat16": "2 to 3 digits",
}
ATTENTION = keras.layers.Attention, keras.layers.AdditiveAttention
HEADED = keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention


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
    if dtype in NARROW and _takes_softmax(layer):
        words.append(f"softmax in {dtype}{_seldom(layer, parent)}")
    words += _weights(layer)
    own = policy.loss_scale if isinstance(policy, Policy) else None
    if dtype == "float16" and own not in (None, scale):
        words.append(f"its policy's {own!r} is not used: the model's counts")
    return tuple(words)


def _takes_softmax(layer):
    # `activation`, or whatever else it is called; an LSTM only passes on its cell's.
    functions = vars(layer).values()
    return isinstance(layer, (keras.layers.Softmax, *ATTENTION)) or any(
        function is keras.activations.softmax for function in functions
    )


def _seldom(layer, parent):
    """Return when a layer of attention heads takes the softmax that it is made of.

    Else it asks the backend for the whole of attention, whose softmax is float32.
    Keras: src/layers/attention/multi_head_attention.py.
    """
    always = not isinstance(parent, HEADED) or getattr(parent, "dropout", 0)
    return "" if always else ", where scores are asked for"


def _weights(layer):
    dtypes = {v.dtype for v in keras_internals.own_variables(layer) if v.trainable}
    return [
        f"{dtype} weights: an update under {LOST[dtype]} of a weight is lost"
        for dtype in sorted(dtypes & NARROW)
    ]


def of_model(model, computes, scale):
    """Return the words on a model as a whole.

    Args:
        model: `keras.Model`.
        computes: set of str, the compute dtypes of its layers that have weights.
        scale: the `LossScale` that applies, or None.

    Returns:
        Tuple of str.
    """
    words = list(_outputs(model))
    for dtype in sorted(_loss_dtypes(model) & NARROW):
        words.append(f"loss computed in {dtype}")
    if "float16" in computes and scale is None:
        words.append("float16 without a loss scale: small gradients become zero")
    return tuple(words)


def _outputs(model):
    """Yield a word for each symbolic output that is narrow."""
    for tensor in keras_internals.flatten(getattr(model, "outputs", None) or []):
        dtype = keras.backend.standardize_dtype(tensor.dtype)
        if dtype in NARROW:
            maker = keras_internals.maker_of(tensor)
            by = f" of {maker.name}" if maker is not None else ""
            yield f"output{by} in {dtype}: {OUTPUT[dtype]}"


def _loss_dtypes(model):
    """Return the dtypes in which a compiled model's losses are computed."""
    losses = keras_internals.flatten(getattr(model, "loss", None))
    known = [loss for loss in losses if loss is not None]
    return {getattr(loss, "dtype", None) or keras.config.floatx() for loss in known}
