"""Writes `.keras` files by the numbers in them: `tests/data/legacy/numbers.tar.xz`.

Run by hand: `python write_numbers.py OUT`, under TensorFlow 2.12.1, 2.13.1, 2.14.1 and
2.15.1, which number the layers of a model differently. Pack them with
`tar -cJf numbers.tar.xz -C OUT .`. `y` is what the model predicts for `x`.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers


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


@keras.utils.register_keras_serializable("numbers")
class Net(keras.Model):
    """Attributes before and after `layers` in the alphabet, in another order."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.z = layers.Dense(3, activation="tanh")
        self.blocks = [layers.Dense(3) for _ in range(2)]
        self.a = layers.Dense(3)
        self._first = layers.Dense(3)

    def call(self, inputs):
        x = self.a(self.z(self._first(inputs)))
        for block in self.blocks:
            x = block(x)
        return x


@keras.utils.register_keras_serializable("numbers")
class Listed(keras.Model):
    """A Functional model with attributes of its own."""

    def __init__(self, **kwargs):
        x = keras.Input((3,))
        first, last = layers.Dense(3), layers.Dense(3, activation="tanh")
        super().__init__(x, layers.Dense(3)(last(layers.Dense(3)(first(x)))), **kwargs)
        self.zero, self.before = first, last

    def get_config(self):
        return {"name": self.name}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


@keras.utils.register_keras_serializable("numbers")
class Coder(layers.Layer):
    """Functional models as attributes, which its config has under the same names."""

    def __init__(self, encoder, decoder, **kwargs):
        super().__init__(**kwargs)
        self.encoder, self.between, self.decoder = encoder, layers.Dense(3), decoder

    def call(self, inputs):
        return self.decoder(self.between(self.encoder(inputs)))

    def get_config(self):
        models = {"encoder": self.encoder, "decoder": self.decoder}
        models = {
            key: keras.layers.serialize(each)
            for key, each in models.items()
        }
        return {**super().get_config(), **models}

    @classmethod
    def from_config(cls, config):
        for key in ("encoder", "decoder"):
            if isinstance(config[key], dict):
                config[key] = keras.layers.deserialize(config[key])
        return cls(**config)


@keras.utils.register_keras_serializable("numbers")
class Around(Coder):
    """The first of them alone, under another name."""

    def __init__(self, model, **kwargs):
        layers.Layer.__init__(self, **kwargs)
        self.inner, self.after = model, layers.Dense(3)

    def call(self, inputs):
        return self.after(self.inner(inputs))

    def get_config(self):
        config = layers.Layer.get_config(self)
        return {**config, "model": keras.layers.serialize(self.inner)}

    @classmethod
    def from_config(cls, config):
        if isinstance(config["model"], dict):
            config["model"] = keras.layers.deserialize(config["model"])
        return cls(**config)


def tower(activation):
    """A model of two layers of one class, beside each other."""
    x = keras.Input((3,))
    y = layers.Dense(3, activation=activation)(x)
    return keras.Model(x, layers.Add()([y, layers.Dense(3)(x)]))


def coder():
    x = keras.Input((3,))
    return keras.Model(x, Coder(tower("tanh"), tower("relu"))(layers.Dense(3)(x)))


def around():
    x = keras.Input((3,))
    return keras.Model(x, Around(tower("tanh"))(x))


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
for make in *MODELS, Net, Listed:
    tf.random.set_seed(3)
    write(make.__name__.lower(), make)
