"""Writes models whose own classes make layers, under a policy: `tests/data/legacy/inner`.

Run by hand with TensorFlow 2.4: `python write_inner.py OUT`. The layers that a class
makes in its `__init__` or in `build` take the global policy, but for those with a dtype.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers


class Block(layers.Layer):
    """Makes a layer in `__init__`, one in `build`, and one with a dtype of its own."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.first = layers.Dense(units, activation="relu", name="first")
        self.exact = layers.Dense(units, dtype="float32", name="exact")

    def build(self, input_shape):
        self.late = layers.Dense(self.units, name="late")
        super().build(input_shape)

    def call(self, inputs):
        return inputs + self.late(self.first(inputs)) + tf.cast(
            self.exact(inputs), self.compute_dtype
        )

    def get_config(self):
        return dict(super().get_config(), units=self.units)


class Tower(keras.Model):
    """Makes layers and a Block; its `__init__` takes no `**kwargs`."""

    def __init__(self):
        super().__init__()
        self.head = layers.Dense(4)
        self.blocks = [Block(4)]

    def call(self, inputs):
        x = self.head(inputs)
        for block in self.blocks:
            x = block(x)
        return x


def functional():
    inputs = keras.Input((4,), name="x")
    out = layers.Dense(2, dtype="float32", name="out")(Block(4, name="block")(inputs))
    return keras.Model(inputs, out, name="functional")


def main(out):
    keras.mixed_precision.set_global_policy("mixed_float16")
    x = np.random.RandomState(3).uniform(-1, 1, (6, 4)).astype("float32")
    for name, make in {"functional": functional, "tower": Tower}.items():
        keras.backend.clear_session()
        tf.random.set_seed(3)
        model, folder = make(), os.path.join(out, name)
        y = model.predict(x)
        model.save(os.path.join(folder, "saved_model"), save_format="tf")
        if name == "functional":
            model.save(os.path.join(folder, "model.h5"))
        np.savez(os.path.join(folder, "expected.npz"), x_0=x, y_0=y)


if __name__ == "__main__":
    main(sys.argv[1])
