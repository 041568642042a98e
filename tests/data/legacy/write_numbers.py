"""Writes `.keras` files by the numbers in them: `tests/data/legacy/numbers.tar.xz`.

Run by hand: `python write_numbers.py OUT`, under TensorFlow 2.12.1, 2.13.1, 2.14.1 and
2.15.1, which number the layers of a model differently. Pack them with
`tar -cJf numbers.tar.xz -C OUT .`. `y` is what the model predicts for `x`.
"""

import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "helpers"))
import numbered_models

keras, layers = tf.keras, tf.keras.layers
CLASSES = numbered_models.classes(keras)
for cls in CLASSES.values():
    keras.utils.register_keras_serializable("numbers")(cls)


def row():
    """Four layers of one class, between two without weights."""
    dense = [layers.Dense(3, activation="tanh") for _ in range(4)]
    parts = [layers.Dropout(0.1), *dense[:2], layers.Dropout(0.1), *dense[2:]]
    return keras.Sequential([keras.Input((3,)), *parts])


def nested():
    """Models of one class, the first of which has no weights."""
    towers = [[layers.Dropout(0.1)], [layers.Dense(3)], [layers.Flatten()]]
    towers += [[layers.Dense(3), layers.Dense(3)]]
    x = keras.Input((3,))
    y = x
    for tower in towers:
        y = keras.Sequential(tower)(y)
    return keras.Model(x, layers.Dense(2)(y))


def shared():
    """A layer that is in a model, and beside it after that model."""
    common = layers.Dense(3)
    x = keras.Input((3,))
    inner = keras.Model(x, layers.Dense(3, activation="tanh")(common(x)))
    y = keras.Input((3,))
    return keras.Model(y, layers.Dense(3)(common(layers.Dense(3)(inner(y)))))


def shared_first():
    """A layer that is in a model, and beside it before that model."""
    common = layers.Dense(3)
    x = keras.Input((3,))
    inner = keras.Model(x, layers.Dense(3, activation="tanh")(common(x)))
    y = keras.Input((3,))
    return keras.Model(y, layers.Dense(3)(inner(layers.Dense(3)(common(y)))))


def namesakes():
    """Two models, each with a layer called `a`, of which one is beside them, too."""
    first, common = layers.Dense(3, name="a"), layers.Dense(3, name="a")
    x, y, z = keras.Input((3,)), keras.Input((3,)), keras.Input((3,))
    one, two = keras.Model(x, first(x)), keras.Model(y, common(y))
    return keras.Model(z, layers.Dense(3)(common(two(one(z)))))


def wrapped():
    """A layer that is in two wrappers."""
    common = layers.Dense(3)
    x = keras.Input((2, 3))
    y = layers.TimeDistributed(common)(x)
    y = layers.TimeDistributed(layers.Dense(3, activation="tanh"))(y)
    y = layers.TimeDistributed(common)(y)
    return keras.Model(x, layers.TimeDistributed(layers.Dense(2))(y))


def tower(activation):
    """A model of two layers of one class, beside each other."""
    x = keras.Input((3,))
    y = layers.Dense(3, activation=activation)(x)
    return keras.Model(x, layers.Add()([y, layers.Dense(3)(x)]))


def coder():
    x = keras.Input((3,))
    y = layers.Dense(3)(x)
    return keras.Model(x, CLASSES["Coder"](tower("tanh"), tower("relu"))(y))


def around():
    x = keras.Input((3,))
    return keras.Model(x, CLASSES["Around"](tower("tanh"))(x))


def write(name, make):
    random = np.random.RandomState(5)
    shape = (6, 2, 3) if name == "wrapped" else (6, 3)
    x = random.uniform(-1, 1, shape).astype("float32")
    folder = os.path.join(sys.argv[1], tf.__version__, name)
    os.makedirs(folder)
    model = make()
    y = model.predict(x, verbose=0)
    model.set_weights([random.uniform(-1, 1, w.shape) for w in model.get_weights()])
    y = model.predict(x, verbose=0)
    path = os.path.join(folder, "model.keras")
    is_first = tf.__version__.startswith("2.12.")
    model.save(path, save_format="keras_v3" if is_first else "keras")
    try:
        again = keras.models.load_model(path)
        difference = np.abs(again.predict(x, verbose=0) - y).max()
    except (KeyError, ValueError) as error:  # it does not keep all shared layers
        difference = str(error)[:60]
    print(tf.__version__, name, "reopened:", difference)
    np.savez(os.path.join(folder, "expected.npz"), x=x, y=y)


MODELS = row, nested, shared, shared_first, namesakes, wrapped, coder, around
for make in *MODELS, CLASSES["Net"], CLASSES["Listed"]:
    tf.random.set_seed(3)
    write(make.__name__.lower(), make)
