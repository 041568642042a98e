"""Opens models of the layer classes of tf.keras, and lists the known failures.

An outcome is `"ok"`, `"refused: ..."` (our error), `"differs: ..."` (other outputs), or
`"stock Keras: ..."` (a layer of Keras 3 raises when it is called).
"""

import json
import re
from typing import NamedTuple

import keras
import numpy as np
from legacy_files import IS_LOWEST_KERAS, KERAS, arrays, called, one

import keras_policies
from keras_policies import keras_internals
from keras_policies.legacy.assembly.keras_differences import rnn_states

# Relative to the largest output: float32 sums round differently in another order.
TOLERANCE = {"float32": 1e-5, "mixed_float16": 1e-2}
STRINGS = "StringLookup|TextVectorization|HashedCrossing|Hashing|IntegerLookup"


class Known(NamedTuple):
    """A known outcome other than "ok", and its reason."""

    names: str  # regex of release/class-variant-policy/form
    outcome: str  # regex
    why: str
    backends: str = "jax tensorflow torch"


KNOWN = (
    # A SavedModel of such layers opens by its traced functions if those can be had.
    Known(
        "LocallyConnected.*-same-.*(h5|keras)$",
        "refused: .*implementation=3",
        "each output has another number of weights",
    ),
    Known("DenseFeatures.*(h5|keras)$", "refused", "Keras 3 has no such layer"),
    Known("RandomFourierFeatures.*(h5|keras)$", "refused", "Keras 3 has no such layer"),
    Known("CategoryCrossing", "refused", "Keras 3 has no such layer"),
    Known("PeepholeLSTMCell.*(h5|keras)$", "refused", "Keras 3 has no such layer"),
    Known(
        "(RandomHeight|RandomWidth).*(h5|keras)$",
        "refused",
        "Keras 3 has no such layer",
    ),
    Known(
        "-time_major-.*(h5|keras)$",
        "refused: .*time_major=True",
        "no argument of Keras 3",
    ),
    Known(
        "BatchNormalization.*-axis_list.*(h5|keras)$",
        "refused: .*axes",
        "Keras 3 takes one axis",
    ),
    Known(
        "SeparableConv1D-causal.*(h5|keras)$",
        "refused: .*causal",
        "no value of Keras 3",
    ),
    Known("Spectral.*keras$", "refused: .*weights", "the file holds the kernel twice"),
    Known(
        r"2\.0\.0/(Additive)?Attention-masked.*saved_model",
        "refused: .*its signature 'serving_default' gives other numbers",
        "no config, and only the function of its signature knows the mask",
    ),
    Known(
        r"2\.10\.1/(Additive)?Attention-causal-.*(h5|keras$)",
        "differs",
        "it lost `causal` in the config, and its own reload differs too",
    ),
    Known("RandomCrop.*(h5|keras)$", "refused", "Keras 3 crops only in training"),
    Known("MultiHeadAttention-sizes", "stock Keras", "key_dim is not value_dim", "jax"),
    Known("GRU-no_bias-mixed", "ok|stock Keras", "float16 turns into float32", "jax"),
    Known(
        "-channels_first|-first-",
        "ok|stock Keras: .*(NHWC|NDHWC|NCHW|channels_first)",
        "TensorFlow on a CPU takes channels last",
        "tensorflow",
    ),
    Known(
        "AveragePooling[23]D-same",
        "ok|differs",
        "stock Keras averages over repeated edges, too",
        "torch",
    ),
    Known(
        "-sparse-", "ok|stock Keras: .*sparse", "no sparse tensors of Keras", "torch"
    ),
    Known(
        STRINGS,
        "ok|stock Keras|refused: .*with TensorFlow, not installed here",
        "needs TensorFlow",
        "jax torch",
    ),
)
# What older releases of Keras 3 cannot do yet: before 3.9, and before 3.13.
KNOWN_BEFORE = {
    (3, 9): (
        Known(
            "/(Additive)?Attention-masked",
            "stock Keras|differs",
            "other rules for masks",
        ),
        Known(
            "/(CenterCrop|RandomZoom|Resizing|UpSampling2D)",
            "ok|stock Keras: ImportError.*torchvision",
            "resized with torchvision, which need not be installed",
            "torch",
        ),
    ),
    (3, 13): (
        Known(
            "TimeDistributed-masked", "ok|stock Keras|differs", "other rules for masks"
        ),
        Known(
            "Conv[123]DTranspose-(output_padding|same_strides)",
            "ok|differs",
            "stock Keras pads at the other end",
            "torch",
        ),
    ),
}


def expectation(name):
    """Return the `Known` of an artifact on this backend, or None to expect "ok"."""
    backend = keras.backend.backend()
    of_release = [
        known
        for release, all_known in KNOWN_BEFORE.items()
        if release > KERAS
        for known in all_known
    ]
    return next(
        (
            known
            for known in (*KNOWN, *of_release)
            if re.search(known.names, name) and backend in known.backends.split()
        ),
        None,
    )


def outcome(path):
    """Open and call the model at `path`; return the outcome in one line."""
    try:
        model = keras_policies.load_model(path, compile=False)
    except keras_policies.LegacyModelError as error:
        return f"refused: {error}".replace(str(path), "").replace("\n", " ")
    _reset_states(model)
    try:
        found = keras.tree.flatten(_call(model, arrays(path, "x_")))
    except Exception as error:  # whatever a layer of Keras raises
        return f"stock Keras: {type(error).__name__}: {' '.join(str(error).split())}"
    return _compare(found, arrays(path, "y_"), path.parent.name)


def _reset_states(model):
    """Let stateful RNNs start from zero, as before the call that was recorded.

    The model was saved after that call, so a SavedModel has the states that it left.
    """
    for layer in keras_internals.sublayers(model):
        for state in rnn_states.of(layer):
            state.assign(keras.ops.zeros(state.shape, state.dtype))


def _call(model, inputs):
    if any(values.dtype.kind == "U" for values in inputs):
        return model(one([*map(_of_tensorflow, inputs)]), training=False)
    # Compiled, masked float16 attention of Keras 3.8 has NaNs.
    if IS_LOWEST_KERAS or any(output.sparse for output in model.outputs):
        return model(one(inputs), training=False)
    return called(model, one(inputs))


def _of_tensorflow(values):
    import tensorflow

    strings = values.dtype.kind == "U"
    return tensorflow.constant(values.astype(object) if strings else values)


def _compare(found, wanted, name):
    for output, expected in zip(found, wanted, strict=True):
        if isinstance(output, np.ndarray):
            pass
        elif not keras.ops.is_tensor(output):
            output = output.numpy()  # a string tensor of TensorFlow
        elif expected.dtype.kind == "U":
            output = output.numpy().astype(str)
        else:
            output = keras.ops.convert_to_numpy(output)
        if output.shape != expected.shape:
            return f"differs: the shape {output.shape} is not {expected.shape}"
        if expected.dtype.kind == "U":
            if output.astype(str).tolist() != expected.tolist():
                return "differs: other strings"
            continue
        limit = TOLERANCE[name.rpartition("-")[2]]
        output, expected = output.astype("float64"), expected.astype("float64")
        scale = np.max(np.abs(expected[np.isfinite(expected)]), initial=1.0)
        if not np.allclose(
            output / scale, expected / scale, limit, limit, equal_nan=True
        ):
            return f"differs: by {np.nanmax(np.abs(output - expected)):.2g}"
    return "ok"


def written(release):
    """Return the paths of all files that one release wrote, in order."""
    return [
        case / form
        for case in sorted(release.iterdir())
        for form in json.loads((case / "expected.json").read_text("utf8"))["written"]
    ]
