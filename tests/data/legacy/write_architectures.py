"""Writes architectures with their weights: `tests/data/legacy/architectures.tar.xz`.

Run by hand: `python write_architectures.py OUT`, under TensorFlow 2.0.0, 2.4.4 and
2.15.1; the first also writes YAML, with PyYAML. Pack them with
`tar -cJf architectures.tar.xz -C OUT 2.0.0 2.4.4 2.15.1`. `y` is what the model
predicts for `x`.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
HAS_YAML = tuple(map(int, tf.__version__.split(".")[:2])) < (2, 4)


def stack():
    """The program json_and_weights.py of a public report."""
    return keras.Sequential(
        [
            layers.Conv2D(2, 3, input_shape=(6, 6, 1), activation="relu"),
            layers.SeparableConv2D(2, 3),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dense(2, activation="softmax"),
        ]
    )


def graph():
    """Shared and frozen layers, a nested model, two inputs and an LSTM."""
    x, y = keras.Input((4, 3), name="x"), keras.Input((4, 3), name="y")
    shared = layers.TimeDistributed(layers.Dense(3))
    inner_input = keras.Input((4, 3))
    frozen = layers.BatchNormalization(trainable=False)
    inner = keras.Model(inner_input, layers.LSTM(2)(frozen(inner_input)), name="inner")
    both = layers.concatenate([inner(shared(x)), inner(shared(y))])
    return keras.Model([x, y], layers.Dense(2)(both))


def write(case):
    random = np.random.RandomState(5)
    model = case()
    model.set_weights([random.uniform(0.1, 1, w.shape) for w in model.get_weights()])
    shapes = [(3,) + tuple(x.shape[1:]) for x in model.inputs]
    x = [random.uniform(-1, 1, shape).astype("float32") for shape in shapes]
    folder = os.path.join(sys.argv[1], tf.__version__, case.__name__)
    os.makedirs(folder)
    named = {"x_%d" % number: each for number, each in enumerate(x)}
    y = model.predict(x)
    np.savez(os.path.join(folder, "expected.npz"), y_0=y, **named)
    with open(os.path.join(folder, "model.json"), "w") as file:
        file.write(model.to_json())
    if HAS_YAML:
        with open(os.path.join(folder, "model.yaml"), "w") as file:
            file.write(model.to_yaml())
    model.save_weights(os.path.join(folder, "weights.h5"))
    model.save_weights(os.path.join(folder, "checkpoint"), save_format="tf")


for case in (stack, graph):
    keras.backend.clear_session()
    tf.random.set_seed(3)
    write(case)
