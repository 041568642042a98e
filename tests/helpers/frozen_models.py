"""Models with frozen parts, as transfer learning makes them, for tf.keras and Keras 3.

`write_frozen.py` writes them under old TensorFlow; `test_frozen.py` opens them, and
builds them again for their files of weights.
"""

import numpy as np


def pair(keras):
    """Return a layer class of two equal Dense layers, the first of them frozen."""

    class Pair(keras.layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.frozen = keras.layers.Dense(5, trainable=False)
            self.free = keras.layers.Dense(5, activation="tanh")

        def call(self, x):
            return self.free(self.frozen(x) + 1.0)

    return Pair


def _base(keras, shape, *layers):
    """Return a model of layers in a row, the first of them frozen."""
    inputs = y = keras.Input(shape)
    for layer in layers:
        y = layer(y)
    layers[0].trainable = False
    return keras.Model(inputs, y, name="base")


def _headed(keras, base, shape):
    inputs = keras.Input(shape)
    y = base(inputs)
    if len(y.shape) == 4:
        y = keras.layers.GlobalAveragePooling2D()(y)
    return keras.Model(inputs, keras.layers.Dense(2, activation="tanh")(y))


def depthwise(keras):
    make = keras.layers.DepthwiseConv2D
    layers = make(3, activation="relu"), make(3, activation="tanh")
    return _headed(keras, _base(keras, (8, 8, 3), *layers), (8, 8, 3))


def two_kinds(keras):
    make, depthwise = keras.layers.Conv2D, keras.layers.DepthwiseConv2D
    layers = make(3, 1, activation="relu"), depthwise(3), make(3, 1, activation="tanh")
    return _headed(keras, _base(keras, (8, 8, 3), *layers), (8, 8, 3))


def recurrent(name):
    """Return a function that makes a model of two equal recurrent layers."""

    def made(keras):
        make = getattr(keras.layers, name)
        layers = make(3, return_sequences=True), make(3)
        return _headed(keras, _base(keras, (5, 3), *layers), (5, 3))

    return made


def custom(keras):
    return _headed(keras, pair(keras)(name="pair"), (5,))


def positions(keras):
    """Return a model whose layers are called in the order in which they are made."""
    inputs = keras.Input((4,))
    y = keras.layers.Dense(4)(inputs)
    return keras.Model(inputs, keras.layers.Dense(4, activation="tanh")(y))


def positions_at_saving(keras):
    """Return the same model, with its layers made in the other order."""
    head, body = keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(4)
    inputs = keras.Input((4,))
    return keras.Model(inputs, head(body(inputs)))


def _convolutions(keras, count):
    """Return blocks as those of MobileNet, with names of their own, and normalized."""
    layers = keras.layers
    made = [layers.Conv2D(3, 3, use_bias=False, name="Conv1")]
    for number in range(count):
        made += [
            layers.BatchNormalization(name=f"block_{number}_BN"),
            layers.ReLU(6.0, name=f"block_{number}_relu"),
            layers.DepthwiseConv2D(3, use_bias=False, name=f"block_{number}_depthwise"),
            layers.Conv2D(3, 1, use_bias=False, name=f"block_{number}_project"),
        ]
    return made


def fine_tuned(keras):
    """Return the model of tensorflow.org's tutorial with a small base.

    Source: "Transfer learning and fine-tuning": the base is trained from a layer on.
    """
    inputs = y = keras.Input((8, 8, 3))
    for layer in _convolutions(keras, 2):
        y = layer(y)
    base = keras.Model(inputs, y, name="mobilenetv2")
    base.trainable = True
    for layer in base.layers[:5]:
        layer.trainable = False
    inputs = keras.Input((8, 8, 3))
    y = keras.layers.GlobalAveragePooling2D()(base(inputs, training=False))
    y = keras.layers.Dropout(0.2)(y)
    return keras.Model(inputs, keras.layers.Dense(1)(y))


def over_time(keras):
    """Return a frozen network for images in TimeDistributed before an LSTM."""
    network = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            *_convolutions(keras, 1),
            keras.layers.GlobalAveragePooling2D(),
        ]
    )
    for layer in network.layers[:3]:
        layer.trainable = False
    inputs = keras.Input((2, 8, 8, 3))
    y = keras.layers.TimeDistributed(network)(inputs)
    y = keras.layers.LSTM(3)(y)
    return keras.Model(inputs, keras.layers.Dense(2)(y))


def teachable(keras):
    """Return a Sequential of Sequentials, as Teachable Machine exports one."""
    inputs = y = keras.Input((8, 8, 3))
    for layer in _convolutions(keras, 2):
        y = layer(y)
    network = keras.Model(inputs, y, name="model1")
    pooling = keras.layers.GlobalAveragePooling2D()
    features = keras.Sequential([network, pooling], name="sequential_1")
    features.trainable = False
    dense = keras.layers.Dense(4, activation="relu", name="dense_Dense1")
    last = keras.layers.Dense(
        2, activation="softmax", use_bias=False, name="dense_Dense2"
    )
    head = keras.Sequential([keras.Input((3,)), dense, last], name="sequential_3")
    return keras.Sequential(
        [keras.Input((8, 8, 3)), features, head], name="sequential_4"
    )


def listed(keras):
    """Return a model that fills lists late: tf.keras lists these layers early."""

    class Listed(keras.Model):
        def __init__(self):
            super().__init__()
            self.blocks, self.others = [], []
            self.head = keras.layers.Dense(4, activation="tanh")
            for _ in range(2):
                self.others.append(keras.layers.Dense(4, activation="relu"))
                self.blocks.append(keras.layers.Dense(4))

        def call(self, x):
            for block, other in zip(self.blocks, self.others):  # noqa: B905 (Python 3.8)
                x = other(block(x))
            return self.head(x)

    model = Listed()
    model(np.zeros((1, 4), "float32"))
    return model


# Case -> the model at saving, and in the code that loads its weights.
MODELS = {
    "depthwise": (depthwise, depthwise),
    "two_kinds": (two_kinds, two_kinds),
    "lstm": (recurrent("LSTM"),) * 2,
    "gru": (recurrent("GRU"),) * 2,
    "simple_rnn": (recurrent("SimpleRNN"),) * 2,
    "custom": (custom, custom),
    "positions": (positions_at_saving, positions),
    "fine_tuned": (fine_tuned, fine_tuned),
    "over_time": (over_time, over_time),
    "teachable": (teachable, teachable),
}
# Subclassed models, whose weights alone go to H5 files.
SUBCLASSED = {"listed": (listed, listed)}
