"""Writes models whose input does not say its size: `tests/data/legacy/unsized`.

Run by hand: `python write_unsized.py OUT`, under TensorFlow 2.4.4 and 2.15.1. What a
Normalization layer has learned, its mean, tells the size that the input leaves open.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
try:
    Normalization = layers.Normalization
except AttributeError:
    Normalization = layers.experimental.preprocessing.Normalization


def main(out):
    x = np.random.RandomState(3).uniform(-1, 4, (6, 3)).astype("float32")
    for name in "sequential", "functional":
        keras.backend.clear_session()
        tf.random.set_seed(3)
        norm = Normalization(name="norm")
        norm.adapt(x)
        head = layers.Dense(2, name="head")
        if name == "sequential":
            model = keras.Sequential([norm, head], name=name)
        else:
            inputs = keras.Input((None,), name="x")
            model = keras.Model(inputs, head(norm(inputs)), name=name)
        y = model.predict(x)
        folder = os.path.join(out, tf.__version__, name)
        model.save(os.path.join(folder, "saved_model"), save_format="tf")
        model.save(os.path.join(folder, "model.h5"))
        if not tf.__version__.startswith("2.4."):
            model.save(os.path.join(folder, "model.keras"))
        np.savez(os.path.join(folder, "expected.npz"), x_0=x, y_0=y)


if __name__ == "__main__":
    main(sys.argv[1])
