"""Writes the models of `tests/data/legacy/statistics.tar.xz`, with TensorFlow 2.15.1.

    python write_statistics.py OUTDIR

SavedModels with batch normalization in a class of their own. A case goes to
OUTDIR/<release>/<case>/: `saved_model` and `expected.npz`, with the input `x`, the output
`y` and, sorted, the numbers of all weights after a step of SGD(0.25) to targets of 1.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

layers = tf.keras.layers


class Neither(layers.Layer):
    """It scales and shifts nothing, so no weight of it is trainable."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.norm = layers.BatchNormalization(scale=False, center=False)

    def call(self, x, training=None):
        return self.norm(x, training=training)


class Never(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.norm = layers.BatchNormalization()

    def call(self, x, training=None):
        return self.norm(x, training=False)


class OneOfTwo(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.moves = layers.BatchNormalization()
        self.stays = layers.BatchNormalization(momentum=0.9)

    def call(self, x, training=None):
        return self.stays(self.moves(x, training=training) * x, training=False)


class Masked(layers.Layer):
    """It leaves out padding, which starts inside of it."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.masking, self.norm = layers.Masking(), layers.BatchNormalization()

    def call(self, x, training=None):
        return self.norm(self.masking(x), training=training)


CASES = {
    "neither": (Neither, (3,)),
    "never": (Never, (3,)),
    "one_of_two": (OneOfTwo, (3,)),
    "masked": (Masked, (4, 3)),
}


def numbers(model):
    return np.sort(np.concatenate([w.ravel() for w in model.get_weights()]))


def write(make, shape, folder):
    tf.keras.backend.clear_session()
    inputs = tf.keras.Input(shape)
    rows = layers.Flatten()(make(name="block")(inputs))
    model = tf.keras.Model(inputs, layers.Dense(1)(rows))
    random = np.random.RandomState(1)
    x = np.float32(random.rand(8, *shape) * 3)
    if make is Masked:
        x[:, -1] = 0
    before = [random.rand(*w.shape) + 0.1 for w in model.get_weights()]
    model.set_weights(before)
    y = model(x).numpy()
    model.compile(tf.keras.optimizers.SGD(0.25), "mse")
    model.train_on_batch(x, np.ones((8, 1)))
    os.makedirs(folder)
    path = os.path.join(folder, "expected.npz")
    np.savez(path, x=x, y=y, after=numbers(model))
    model.set_weights(before)
    model.save(os.path.join(folder, "saved_model"))


def main(out):
    for name, (make, shape) in CASES.items():
        write(make, shape, os.path.join(out, tf.__version__, name))


if __name__ == "__main__":
    main(*sys.argv[1:])
