"""Writes small trained models with the Keras that was no part of TensorFlow yet.

    KERAS_BACKEND=tensorflow python write_keras_2.py OUTDIR

Under Keras 2.1.2 on TensorFlow 1.5, 2.2.4 on 1.13 and 2.3.1 on 1.15 (Python 3.6). A
case goes to OUTDIR/<release>/<case>.h5. Its `.npz` has the inputs `x_*` and outputs `y`;
the variables of the optimizer `o_*`; the names of the trained weights, in the order of
the optimizer. Then the model was trained for a step on the inputs and `target`: the
trained weights after it are `w_*`.
"""

import os
import sys

import keras
import numpy as np
from keras.layers import (
    GRU,
    LSTM,
    Activation,
    BatchNormalization,
    Bidirectional,
    Dense,
    Input,
    add,
    concatenate,
)

RANDOM = np.random.RandomState(0)
RELEASE = keras.__version__
optimizers = keras.optimizers


def draw(*shape):
    return RANDOM.uniform(-1, 1, shape).astype("float32")


def two_inputs():
    a, b = Input((4,)), Input((4,))
    left = Dense(4, name="z")(BatchNormalization(name="statistics")(a))
    joined = Activation("tanh")(add([Dense(4, name="y")(b), left]))
    return keras.models.Model([b, a], Dense(2, name="x")(joined))


def recurrent():
    x = Input((5, 4))
    y = Bidirectional(GRU(3, return_sequences=True))(x)
    z = GRU(2, activation="relu", recurrent_activation="sigmoid")(y)
    return keras.models.Model(x, Dense(2)(concatenate([z, LSTM(3)(y)])))


OPTIMIZERS = {
    "sgd": lambda: optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "plain_sgd": lambda: optimizers.SGD(0.1),
    "rmsprop": lambda: optimizers.RMSprop(0.01),
    "adagrad": lambda: optimizers.Adagrad(0.01),
    "adadelta": lambda: optimizers.Adadelta(),
    "adam": lambda: optimizers.Adam(0.01),
    "adamax": lambda: optimizers.Adamax(0.01),
    "nadam": lambda: optimizers.Nadam(0.01),
    "amsgrad": lambda: optimizers.Adam(0.01, amsgrad=True),
}


def write(path, model, optimizer):
    model.compile(optimizer, "mse")
    shapes = [keras.backend.int_shape(x) for x in model.inputs]
    inputs = [draw(6, *shape[1:]) for shape in shapes]
    target = draw(6, 2)
    for _ in range(3):
        model.train_on_batch(inputs, target)
    found = {"x_%d" % i: x for i, x in enumerate(inputs)}
    found["y"], found["target"] = model.predict(inputs), target
    found["trained"] = [weight.name for weight in model.trainable_weights]
    for i, value in enumerate(model.optimizer.get_weights()):
        found["o_%d" % i] = value
    model.save(path + ".h5")
    model.train_on_batch(inputs, target)
    values = keras.backend.batch_get_value(model.trainable_weights)
    for i, value in enumerate(values):
        found["w_%d" % i] = value
    np.savez_compressed(path + ".npz", **found)


if __name__ == "__main__":
    folder = os.path.join(sys.argv[1], RELEASE)
    os.makedirs(folder, exist_ok=True)
    for name, make in OPTIMIZERS.items():
        if name == "amsgrad" and RELEASE == "2.1.2":
            continue  # which did not have it
        keras.backend.clear_session()
        write(os.path.join(folder, name), two_inputs(), make())
    keras.backend.clear_session()
    write(os.path.join(folder, "recurrent"), recurrent(), optimizers.Adam(0.01))
    keras.backend.clear_session()
    model = two_inputs()
    model.get_layer("z").trainable = False
    write(os.path.join(folder, "frozen"), model, optimizers.SGD(0.1, momentum=0.9))
    if RELEASE == "2.1.2":  # which records no settings of a cell
        keras.backend.clear_session()
        layers = [keras.layers.RNN(keras.layers.GRUCell(3), input_shape=(5, 4))]
        model = keras.models.Sequential([*layers, Dense(2)])
        write(os.path.join(folder, "cell"), model, optimizers.SGD(0.1))
