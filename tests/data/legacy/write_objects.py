"""Writes checkpoints of several objects: `tests/data/legacy/objects.tar.xz`.

Run by hand: `python write_objects.py OUT`, under TensorFlow 2.4.4 and 2.15.1. Pack them
with `tar -cJf objects.tar.xz -C OUT .`. `y` is what the model predicts for `x`.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers


def generator():
    return keras.Sequential(
        [
            keras.Input((3,)),
            layers.Dense(8),
            layers.BatchNormalization(),
            layers.LeakyReLU(),
            layers.Reshape((2, 2, 2)),
            layers.Conv2DTranspose(1, 3, 2, padding="same", activation="tanh"),
        ]
    )


def discriminator():
    convolution = layers.Conv2D(2, 3, input_shape=(4, 4, 1))
    return keras.Sequential([convolution, layers.Flatten(), layers.Dense(1)])


def tower(units):
    return keras.Sequential([layers.Dropout(0.1), layers.Dense(units)])


class Ranking(keras.Model):
    """The layout of a ranking model of TensorFlow Recommenders."""

    def __init__(self):
        super().__init__()
        self.towers = [tower(4), tower(4)]
        self.ratings = keras.Sequential([layers.Dense(3), tower(1)])
        self.seen = keras.metrics.Mean(name="seen")

    def call(self, inputs):
        return self.ratings(self.towers[0](inputs) * self.towers[1](inputs))


def nested():
    """A Functional in a Functional in a Functional."""
    x = keras.Input((3,))
    inner = keras.Model(x, layers.Dense(2)(layers.ReLU()(layers.Dense(4)(x))))
    y = keras.Input((3,))
    middle = keras.Model(y, layers.Dense(3)(inner(y)))
    z = keras.Input((3,))
    return keras.Model(z, middle(layers.Dense(3)(z)))


def gan(path):
    model = generator()
    objects = {
        "generator": model,
        "discriminator": discriminator(),
        "generator_optimizer": keras.optimizers.Adam(),
        "discriminator_optimizer": keras.optimizers.Adam(),
    }
    return model, lambda: tf.train.Checkpoint(**objects).save(path)


def twins(path):
    """Two models of one shape, of which `other` is recorded."""
    one, other = discriminator(), discriminator()
    return other, lambda: tf.train.Checkpoint(one=one, other=other).save(path)


def weights_of(make):
    def case(path):
        model = make()
        return model, lambda: model.save_weights(path, save_format="tf")

    return case


def write(name, case):
    random = np.random.RandomState(5)
    shape = (6, 4, 4, 1) if name == "twins" else (6, 3)
    x = random.uniform(-1, 1, shape).astype("float32")
    folder = os.path.join(sys.argv[1], tf.__version__, name)
    os.makedirs(folder)
    model, save = case(os.path.join(folder, "checkpoint"))
    model(x)
    model.set_weights([random.uniform(0.1, 1, w.shape) for w in model.get_weights()])
    np.savez(os.path.join(folder, "expected.npz"), x=x, y=model.predict(x, verbose=0))
    save()


for name, case in (
    ("gan", gan),
    ("twins", twins),
    ("ranking", weights_of(Ranking)),
    ("nested", weights_of(nested)),
):
    tf.random.set_seed(3)
    write(name, case)
