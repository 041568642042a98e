"""Writes checkpoints of weights beside code: `tests/data/legacy/checkpoints.tar.xz`.

Run by hand: `python write_checkpoints.py OUT`, under TensorFlow 2.4.4 and 2.15.1. Each
model was trained for two steps; `after_*` are its weights after another.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers


class Task(layers.Layer):
    """A metric inside a layer, as in TensorFlow Recommenders."""

    def __init__(self):
        super().__init__()
        self.mean = keras.metrics.Mean(name="mean")

    def call(self, inputs):
        return inputs


class Net(keras.Model):
    """A model with an optimizer of its own, and a metric."""

    def __init__(self):
        super().__init__()
        self.first = layers.Dense(3, activation="tanh")
        self.last = layers.Dense(2)
        self.task = Task()
        self.own = keras.optimizers.Adam(0.1)
        self.seen = self.add_weight(name="seen", shape=(), trainable=False)

    def call(self, inputs):
        return self.task(self.last(self.first(inputs)))


def sequential(dtype="float32"):
    dtype = keras.mixed_precision.Policy(dtype)
    first = layers.Dense(3, activation="tanh", dtype=dtype)
    return keras.Sequential([keras.Input((4,)), first, layers.Dense(2)])


def write(name, model, optimizer, save):
    random = np.random.RandomState(3)
    x = random.uniform(-1, 1, (6, 4)).astype("float32")
    y = random.uniform(-1, 1, (6, 2)).astype("float32")
    model.compile(optimizer, "mse")
    for _ in range(2):
        model.train_on_batch(x, y)
    folder = os.path.join(sys.argv[1], tf.__version__, name)
    os.makedirs(folder)
    save(model, os.path.join(folder, "checkpoint"))
    stored = {"x": x, "ty": y, "y": model.predict(x, verbose=0)}
    if name == "scaled":
        stored["scale"] = float(model.optimizer.loss_scale)
    model.train_on_batch(x, y)
    for number, weight in enumerate(model.get_weights()):
        stored[f"after_{number}"] = weight
    np.savez(os.path.join(folder, "expected.npz"), **stored)


def save_weights(model, path):
    model.save_weights(path, save_format="tf")


def checkpoint(model, path):
    tf.train.Checkpoint(model=model, optimizer=model.optimizer).write(path)


def scaled():
    inner = keras.optimizers.SGD(0.05, momentum=0.9)
    options = {"initial_scale": 4096.0, "dynamic_growth_steps": 2}
    return keras.mixed_precision.LossScaleOptimizer(inner, **options)


for name, model, optimizer, save in (
    ("net", Net, keras.optimizers.Adam(0.05), save_weights),
    ("scaled", lambda: sequential("mixed_float16"), scaled(), save_weights),
    ("tracked", sequential, keras.optimizers.Adam(0.05), checkpoint),
    ("tracked_net", Net, keras.optimizers.SGD(0.05, momentum=0.9), checkpoint),
):
    tf.random.set_seed(3)
    write(name, model(), optimizer, save)
