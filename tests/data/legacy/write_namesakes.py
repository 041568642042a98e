"""Writes models with objects of users that are named like those of Keras.

Run by hand: `python write_namesakes.py OUT`, under TensorFlow 2.4.4 and 2.15.1. Pack them
with `tar -cJf namesakes.tar.xz -C OUT .`. `data.npz` has the loss that tf.keras computed.
"""

import json
import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
IS_NEW = tf.__version__ > "2.12"
registered = keras.utils.register_keras_serializable("My")


class L2(keras.regularizers.Regularizer):
    def __init__(self, l2=0.1):
        self.l2 = l2

    def __call__(self, weights):
        return 100 * self.l2 * tf.reduce_sum(tf.square(weights))

    def get_config(self):
        return {"l2": self.l2}


class NonNeg(keras.constraints.Constraint):
    def __call__(self, weights):
        return weights * 0.5

    def get_config(self):
        return {}


class ReLU(layers.ReLU):
    def call(self, inputs):
        return super().call(inputs) * 2


class MeanSquaredError(keras.losses.Loss):
    def call(self, true, predicted):
        return tf.reduce_sum(tf.square(true - predicted), -1)


class ExponentialDecay(keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step):
        return 100.0

    def get_config(self):
        return {"initial_learning_rate": 0.5, "decay_steps": 10, "decay_rate": 0.5}


class MeanAbsoluteError(keras.metrics.MeanAbsoluteError):
    def result(self):
        return 7 * super().result()


def relu(x):
    return 10 * tf.nn.relu(x)


def l2(weights):
    return 100 * tf.reduce_sum(tf.square(weights))


def mse(true, predicted):
    return tf.reduce_sum(tf.square(true - predicted), -1)


# Objects named like those that only Keras 3 has.


def tversky(true, predicted):
    return tf.reduce_sum(tf.square(true - predicted), -1)


def squareplus(x):
    return x + tf.sqrt(x * x + 1)


class RMSNormalization(layers.Layer):
    def call(self, inputs):
        return inputs * 2


class Lamb(keras.optimizers.SGD):
    pass


CASES = {  # name -> the object, and the arguments of Dense and of compile
    "regularizer": (L2, lambda own: ({"kernel_regularizer": own()}, {})),
    "regularizer_function": (l2, lambda own: ({"kernel_regularizer": own}, {})),
    "constraint": (NonNeg, lambda own: ({"kernel_constraint": own()}, {})),
    "activation_layer": (ReLU, lambda own: ({"activation": own()}, {})),
    "activation": (relu, lambda own: ({"activation": own}, {})),
    "loss": (MeanSquaredError, lambda own: ({}, {"loss": own()})),
    "loss_function": (mse, lambda own: ({}, {"loss": own})),
    "metric": (MeanAbsoluteError, lambda own: ({}, {"metrics": [own("m")]})),
    "metric_function": (mse, lambda own: ({}, {"metrics": [own]})),
    "schedule": (
        ExponentialDecay,
        lambda own: ({}, {"optimizer": keras.optimizers.SGD(own())}),
    ),
}
CASES_OF_KERAS_3 = {
    "new_loss": (tversky, lambda own: ({}, {"loss": own})),
    "new_metric": (tversky, lambda own: ({}, {"metrics": [own]})),
    "new_activation": (squareplus, lambda own: ({"activation": own}, {})),
    "new_layer": (RMSNormalization, lambda own: ({"activation": own()}, {})),
    "new_optimizer": (Lamb, lambda own: ({}, {"optimizer": own(0.1)})),
}
MODULES = "activations", "layers", "losses", "metrics", "optimizers"
UNREGISTERED = "regularizer_function", "loss", "loss_function", "metric"


def write(folder, name, own, arguments):
    place = pathlib.Path(folder, tf.__version__, name)
    place.mkdir(parents=True, exist_ok=True)
    of_layer, of_training = arguments(own)
    first = [layers.InputLayer((4,)), layers.Dense(3, **of_layer)]
    model = keras.Sequential(first)
    model.compile(**{"optimizer": "sgd", "loss": "mae", **of_training})
    model.set_weights([np.linspace(-1, 1, 12).reshape(4, 3), np.zeros(3)])
    x = np.random.RandomState(0).rand(4, 4).astype("float32")
    np.savez(place / "data.npz", x=x, loss=model.evaluate(x, x[:, :3], verbose=0))
    model.save(str(place / "model.h5"))
    if IS_NEW:
        model.save(str(place / "model.keras"))


def names():
    """Return the public names of the modules in which Keras looks names up."""
    found = {}
    for module in MODULES:
        place = getattr(keras, module)
        inner = getattr(place, "experimental", None)
        places = place, inner, getattr(inner, "preprocessing", None)
        both = {name for each in places if each is not None for name in dir(each)}
        found[module] = sorted(name for name in both if not name.startswith("_"))
    return found


def main(folder):
    for name, case in CASES_OF_KERAS_3.items():
        write(folder, name, *case)
    for name in UNREGISTERED:
        write(folder, f"unregistered_{name}", *CASES[name])
    for own in {own for own, _ in CASES.values()}:
        registered(own)
    for name, case in CASES.items():
        write(folder, name, *case)
    pathlib.Path(folder, tf.__version__, "names.json").write_text(json.dumps(names()))


if __name__ == "__main__":
    main(*sys.argv[1:])
