"""Writes the models of `tests/data/legacy/nested.tar.xz`, with the running TensorFlow.

    python write_nested.py OUTDIR

Under TensorFlow 2.4.4 and 2.15.1. A case goes to OUTDIR/<release>/<case>/: `saved_model/`,
`model.h5`, `model.keras` (2.15) and `expected.npz`, with an input `x`, the output `y`, the
targets `t`, and all weights after one more step on `x` and `t`, `after_<number>` in the
order of `model.weights`.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
IS_NEW = not tf.__version__.startswith("2.4")


def frozen(x):
    """A model that is not trained, whatever its layers say."""
    step = keras.Input((5, 4))
    first = layers.Dense(3)
    inner = keras.Model(step, layers.Dense(6)(first(step)), name="inner")
    inner.trainable = False
    first.trainable = True
    return layers.Dense(2)(inner(x))


def both_ways(x):
    gru = layers.GRU(2, return_sequences=True, go_backwards=True)
    return layers.Bidirectional(gru)(x)


def model_of_steps(x):
    step = keras.Input((4,))
    inner = keras.Model(step, layers.Dense(2)(layers.Dense(3, activation="tanh")(step)))
    return layers.TimeDistributed(inner)(x)


def normalized_steps(x):
    inner = keras.Sequential([layers.Dense(3), layers.BatchNormalization()])
    return layers.TimeDistributed(inner)(x)


def unused_output(x):
    step = keras.Input((5, 4))
    inner = keras.Model(step, [layers.Dense(2)(step), layers.Dense(3)(step)])
    return inner(x)[1]


def shared(x):
    dense, step, other = layers.Dense(4), keras.Input((5, 4)), keras.Input((5, 4))
    first = keras.Model(step, dense(step), name="first")
    second = keras.Model(other, dense(layers.Dense(4)(other)), name="second")
    return second(first(x))


CASES = frozen, both_ways, model_of_steps, normalized_steps, unused_output, shared


def write(case, folder):
    keras.backend.clear_session()
    tf.random.set_seed(3)
    random = np.random.RandomState(3)
    inputs = keras.Input((5, 4))
    model = keras.Model(inputs, case(inputs))
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    x = random.normal(size=(3, 5, 4)).astype("float32")
    t = random.normal(size=(3, *model.output_shape[1:])).astype("float32")
    model.train_on_batch(x, t)
    os.makedirs(folder)
    model.save(os.path.join(folder, "model.h5"))
    if case in (frozen, shared):
        model.save(os.path.join(folder, "saved_model"), save_format="tf")
    if IS_NEW and case is not shared:  # it cannot open that itself
        model.save(os.path.join(folder, "model.keras"))
    y = model.predict(x)
    model.train_on_batch(x, t)
    after = {"after_%d" % i: w for i, w in enumerate(model.get_weights())}
    np.savez_compressed(os.path.join(folder, "expected.npz"), x=x, y=y, t=t, **after)


if __name__ == "__main__":
    for case in CASES:
        write(case, os.path.join(sys.argv[1], tf.__version__, case.__name__))
