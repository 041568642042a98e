"""Writes custom layers that look words up: `tests/data/legacy/lost_lookups.tar.xz`.

Run by hand: `python write_lost_lookups.py OUT`, under TensorFlow 2.4.4 and 2.15.1.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
try:
    IntegerLookup = layers.IntegerLookup
except AttributeError:
    IntegerLookup = layers.experimental.preprocessing.IntegerLookup


class Item(layers.Layer):
    """Calls a lookup layer, and another one in a model."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.kind = IntegerLookup(name="kinds")
        self.kind.adapt(np.array([[7], [8], [9]]))
        words = IntegerLookup(name="words")
        words.adapt(np.array([[3], [3], [5]]))
        self.embedded = keras.Sequential([words, layers.Embedding(6, 2)], name="row")

    def call(self, inputs):
        kinds = tf.cast(self.kind(inputs), tf.float32)
        return self.embedded(inputs) * tf.expand_dims(kinds, -1)


x = keras.Input((3,), dtype="int64", name="x")
model = keras.Model(x, Item(name="item")(x))
out = os.path.join(sys.argv[1], tf.__version__)
model.save(os.path.join(out, "saved_model"))
x = np.array([[3, 5, 7], [8, 9, 1]])
np.savez(os.path.join(out, "expected.npz"), x=x, y=model(x).numpy())
