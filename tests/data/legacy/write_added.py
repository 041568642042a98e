"""Writes models that add a loss of layers of their own: `tests/data/legacy/added`.

Run by hand: `python write_added.py OUT`, under TensorFlow 2.4.4 and 2.15.1. Each was
trained for a step.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers


def of_inner_layers():
    """The loss takes the layers inside the encoder, which the model calls as a whole.

    A VAE often does.
    """
    x = keras.Input((4,), name="x")
    mean = layers.Dense(2, name="mean")(layers.Dense(3, name="hidden")(x))
    encoder = keras.Model(x, mean, name="encoder")
    y = layers.Dense(4, name="out")(encoder(x))
    model = keras.Model(x, y, name="vae")
    model.add_loss(tf.reduce_mean(tf.math.lgamma(tf.square(mean) + 1.0)))
    return model


def inside():
    """The model inside has a layer that is there for its loss alone."""
    x = keras.Input((4,), name="x")
    encoder = keras.Model(x, layers.Dense(3, name="code")(x), name="encoder")
    judged = layers.Dense(1, name="judge")(x)
    encoder.add_loss(tf.reduce_mean(tf.square(judged)))
    z = keras.Input((4,), name="z")
    return keras.Model(z, layers.Dense(2, name="out")(encoder(z)), name="outer")


FORMS = ["model.h5", "saved_model"] + ["model.keras"] * (
    not tf.__version__.startswith("2.4.")
)
for make in (of_inner_layers, inside):
    out = os.path.join(sys.argv[1], tf.__version__, make.__name__)
    os.makedirs(out, exist_ok=True)
    tf.random.set_seed(3)
    model = make()
    model.compile("adam", "mse")
    x = np.arange(8, dtype="float32").reshape(2, 4) / 8
    model.fit(x, np.ones((2, model.output_shape[-1])), verbose=0)
    np.savez(os.path.join(out, "expected.npz"), x=x, y=model(x).numpy())
    for form in FORMS:
        model.save(os.path.join(out, form))
