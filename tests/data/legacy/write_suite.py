"""Writes models like those that Keras 2.15's own tests save: `suite.tar.xz`.

    python write_suite.py OUTDIR

Under TensorFlow 2.15.1. `tools/keras_2_tests.py` found kinds that were refused; each
has a case here, a folder with the model and `expected.npz`, its input `x_0` and its
output `y_0`.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
RANDOM = np.random.RandomState(0)


def dilated(layer, *shape):
    """A convolution over inputs of any size, without Keras metadata."""

    def make():
        model = keras.Sequential([keras.Input(shape), layer])
        module = tf.Module()
        module.model = model
        module.f = tf.function(model.call, input_signature=[model.inputs[0].type_spec])
        return module

    return make


def locally_connected(implementation):
    def make():
        conv = {"implementation": implementation, "activation": "relu"}
        return keras.Sequential(
            [
                keras.Input((5, 5, 2)),
                layers.LocallyConnected2D(3, 2, **conv),
                layers.Reshape((4, 12)),
                layers.LocallyConnected1D(2, 2, **conv),
            ]
        )

    return make


def long_names():
    x = keras.Input((2,), name="input_" + 3000 * "x")
    y = layers.Dense(3, name="dense_" + 3000 * "y")(x)
    return keras.Model(x, y)


def in_both():
    """A layer that is in a nested model, too: tf.keras writes that one's call of it."""
    shared = layers.Dense(4, name="shared")
    x = keras.Input((4,), name="x")
    inner = keras.Model(x, shared(x), name="inner")
    y = keras.Input((4,), name="y")
    return keras.Model(y, inner(shared(y)))


CASES = {
    "dilated_1d": (dilated(layers.Conv1D(3, 3, dilation_rate=2), None, 2), (2, 7, 2)),
    "dilated_2d": (
        dilated(layers.Conv2D(3, 3, dilation_rate=2), None, None, 2),
        (2, 7, 8, 2),
    ),
    "dilated_2d_same": (
        dilated(
            layers.Conv2D(3, (3, 2), dilation_rate=(2, 3), padding="same"),
            *(None, None, 2),
        ),
        (2, 7, 8, 2),
    ),
    "dilated_causal": (
        dilated(layers.Conv1D(3, 3, dilation_rate=4, padding="causal"), None, 2),
        (2, 9, 2),
    ),
    "dilated_depthwise": (
        dilated(
            layers.DepthwiseConv2D(3, dilation_rate=2, padding="same"), None, None, 2
        ),
        (2, 7, 8, 2),
    ),
    "locally_connected_2": (locally_connected(2), (2, 5, 5, 2)),
    "locally_connected_3": (locally_connected(3), (2, 5, 5, 2)),
    "long_names": (long_names, (2, 2)),
    "in_both": (in_both, (2, 4)),
}
AS_H5 = "long_names", "in_both"


def write(name, folder):
    make, shape = CASES[name]
    made = make()
    for variable in made.variables:
        variable.assign(RANDOM.uniform(-1, 1, variable.shape))
    x = RANDOM.uniform(-1, 1, shape).astype("float32")
    os.makedirs(folder)
    path = os.path.join(folder, "saved_model")
    if isinstance(made, keras.Model):
        y = made(x)
        made.save(path)
    else:
        y = made.f(x)
        tf.saved_model.save(made, path, signatures=made.f)
    if name in AS_H5:
        made.save(os.path.join(folder, "model.h5"))
    np.savez(os.path.join(folder, "expected.npz"), x_0=x, y_0=y.numpy())
    return made


if __name__ == "__main__":
    for case in CASES:
        write(case, os.path.join(sys.argv[1], case))
