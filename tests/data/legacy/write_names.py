"""Writes models whose custom layers take no name: `tests/data/legacy/names.tar.xz`.

Run by hand: `python write_names.py OUT`, under TensorFlow 2.0.0, 2.4.4 and 2.15.1. Pack
them with `tar -cJf names.tar.xz -C OUT 2.0.0 2.4.4 2.15.1`. `y` is what the model
predicts for `x`.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
RELEASE = tuple(map(int, tf.__version__.split(".")[:2]))


class Scale(layers.Layer):
    """Takes no name, and its config holds none."""

    def __init__(self, factor=2.0):
        super(Scale, self).__init__()
        self.factor = factor
        self.first = layers.Dense(5, activation="tanh")
        self.second = layers.Dense(5)

    def call(self, inputs):
        return self.second(self.first(inputs)) * self.factor

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {"factor": self.factor}


class Deaf(Scale):
    """Takes a name and ignores it."""

    def __init__(self, factor=2.0, **kwargs):
        super(Deaf, self).__init__(factor)

    def get_config(self):
        return {"factor": self.factor, "name": self.name}


class Block(keras.Model):
    """A model that is used as a layer and takes no name."""

    def __init__(self, factor=2.0):
        super(Block, self).__init__()
        self.factor = factor
        self.inner = Scale(factor)

    def call(self, inputs):
        return self.inner(inputs) + 1.0

    def get_config(self):
        return {"factor": self.factor}


class Gain(keras.Model):
    """A Functional model with weights of its own."""

    def __init__(self, inputs, outputs, name=None, trainable=True):
        super(Gain, self).__init__(inputs, outputs, name=name)
        self.gain = self.add_weight(name="gain", shape=(2,), initializer="ones")
        self.shift = self.add_weight(
            name="shift", shape=(2,), initializer="zeros", trainable=False
        )

    def call(self, inputs, training=None, mask=None):
        outputs = super(Gain, self).call(inputs, training=training, mask=mask)
        return outputs * self.gain + self.shift


def crossed(first, second):
    """Two layers, called in another order than they were made."""
    x = keras.Input((5,))
    return x, second(first(x))


def swapped():
    one, other = Scale(0.5), Scale(3.0)
    x, y = crossed(other, one)
    return keras.Model(x, layers.Dense(2)(y))


def deaf():
    one, other = Deaf(0.5), Deaf(3.0)
    x, y = crossed(other, one)
    return keras.Model(x, layers.Dense(2)(y))


def sequence():
    made = [Scale(0.5), Scale(3.0), Scale(1.5)]
    return keras.Sequential([keras.Input((5,)), made[2], made[0], made[1]])


def blocks():
    one, other = Block(0.5), Block(3.0)
    return keras.Model(*crossed(other, one))


def inside():
    one, other = Scale(0.5), Scale(3.0)
    inner = keras.Model(*crossed(other, one), name="inner")
    made = [Scale(0.5), Scale(1.5)]
    stack = keras.Sequential([keras.Input((5,)), made[1], made[0]], name="stack")
    x = keras.Input((5,))
    return keras.Model(x, stack(Scale(1.0)(inner(x))))


def wrapped():
    one, other = (layers.TimeDistributed(Scale(factor)) for factor in (0.5, 3.0))
    x = keras.Input((3, 5))
    return keras.Model(x, one(other(x)))


def own():
    x = keras.Input((5,))
    return Gain(x, layers.Dense(2)(x))


CASES = (swapped, deaf, sequence, blocks, inside, wrapped, own)
CUSTOM_OBJECTS = {cls.__name__: cls for cls in (Scale, Deaf, Block, Gain)}


def write(case):
    random = np.random.RandomState(5)
    [Scale() for _ in range(2)]  # so that names begin with scale_2
    model = case()
    shape = [4] + [size for size in model.input_shape[1:]]
    x = random.uniform(-1, 1, shape).astype("float32")
    model(x)
    model.set_weights([random.uniform(0.1, 1, w.shape) for w in model.get_weights()])
    folder = os.path.join(sys.argv[1], tf.__version__, case.__name__)
    os.makedirs(folder)
    y = model.predict(x)
    np.savez(os.path.join(folder, "expected.npz"), x=x, y=y)
    forms = ["model.h5", "saved_model"] + ["model.keras"] * (RELEASE >= (2, 12))
    for form in forms:
        path = os.path.join(folder, form)
        model.save(path)
        try:
            again = keras.models.load_model(path, CUSTOM_OBJECTS)
            print(case.__name__, form, np.abs(again.predict(x) - y).max())
        except Exception as error:
            print(case.__name__, form, type(error).__name__, str(error)[:90])


for case in CASES:
    keras.backend.clear_session()
    tf.random.set_seed(3)
    write(case)
