"""Writes models whose next training step is compared: `tests/data/legacy/steps.tar.xz`.

    python write_steps.py OUTDIR [CASE ...]

Under TensorFlow 2.0.0, 2.4.4 and 2.15.1. A case goes to OUTDIR/<release>/<case>/:
`model.h5`, in 2.15 `model.keras` and `saved_model/`, and `expected.npz`: the batch `x`,
`t_*`, the loss of the next step on it, and the weights `after_*`.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
optimizers, regularizers = keras.optimizers, keras.regularizers
IS_NEW = tf.__version__.startswith("2.15")
random = np.random.RandomState(3)


def dense(optimizer, loss="mse", outputs=1, **compiled):
    x = keras.Input((4,), name="x")
    y = [layers.Dense(2, name="out_%d" % i)(x) for i in range(outputs)]
    model = keras.Model(x, y)
    model.compile(optimizer, loss, **compiled)
    return model


def over_steps(layer):
    x = keras.Input((5, 4), name="x")
    model = keras.Model(x, layers.TimeDistributed(layer, name="steps")(x))
    model.compile(optimizers.SGD(0.1, momentum=0.9), "mse")
    return model


def rows():
    x = keras.Input((3,), name="x", dtype="int32")
    y = layers.Flatten()(layers.Embedding(5, 2, name="table")(x))
    model = keras.Model(x, layers.Dense(2)(y))
    model.compile(optimizers.SGD(0.1, momentum=0.9), "mse")
    return model


def simple_rnn():
    x = keras.Input((5, 4), name="x")
    rnn = layers.SimpleRNN(2, activity_regularizer=regularizers.l2(0.3))
    model = keras.Model(x, layers.Bidirectional(rnn)(x))
    model.compile(optimizers.SGD(0.1, momentum=0.9), "mse")
    return model


def both_ways_over_steps():
    x = keras.Input((3, 5, 4), name="x")
    lstm = layers.LSTM(2, activity_regularizer=regularizers.l2(0.3))
    wrapped = layers.TimeDistributed(layers.Bidirectional(lstm), name="steps")
    model = keras.Model(x, wrapped(x))
    model.compile(optimizers.SGD(0.1, momentum=0.9), "mse")
    return model


def attention():
    x = keras.Input((5, 4), name="x")
    regularizer = regularizers.l1(0.2)
    layer = layers.MultiHeadAttention(1, 2, activity_regularizer=regularizer)
    model = keras.Model(x, layer(x, x))
    model.compile(optimizers.SGD(0.1, momentum=0.9), "mse")
    return model


def active(units=2):
    return layers.Dense(units, activity_regularizer=regularizers.l1_l2(0.1, 0.3))


def wrapped_twice():
    x = keras.Input((5, 2, 4), name="x")
    inner = layers.TimeDistributed(active(), name="inner")
    model = keras.Model(x, layers.TimeDistributed(inner, name="steps")(x))
    model.compile(optimizers.SGD(0.1, momentum=0.9), "mse")
    return model


CASES = {
    "activity_over_steps": lambda: over_steps(active()),
    "activity_over_steps_twice": wrapped_twice,
    "activity_in_a_model_over_steps": lambda: over_steps(
        keras.Sequential([active(3), layers.Dense(2)])
    ),
    "activity_in_bidirectional_over_steps": both_ways_over_steps,
    "activity_simple_rnn": simple_rnn,
    "adam": lambda: dense(optimizers.Adam(0.1)),
    "clipped": lambda: dense(optimizers.SGD(0.1, momentum=0.5, clipnorm=0.01)),
    "ftrl": lambda: dense(
        optimizers.Ftrl(0.1, l2_shrinkage_regularization_strength=0.03)
    ),
    "huber_loss": lambda: dense(optimizers.SGD(0.1, momentum=0.5), "huber_loss"),
    "nadam": lambda: dense(optimizers.Nadam(0.1)),
    "one_loss": lambda: dense(
        optimizers.SGD(0.1, momentum=0.5), outputs=2, loss_weights=[0.3, 2.0]
    ),
    "partly_weighted": lambda: dense(
        optimizers.SGD(0.1, momentum=0.5),
        {"out_0": "mse", "out_1": "mae"},
        outputs=2,
        loss_weights={"out_1": 3.0},
    ),
    "rows": rows,
    "unreduced": lambda: dense(
        optimizers.SGD(0.1, momentum=0.5),
        keras.losses.MeanSquaredError(reduction="none"),
    ),
}
if IS_NEW:
    CASES["activity_attention"] = attention
    CASES["adafactor"] = lambda: dense(optimizers.Adafactor(0.1, clip_threshold=0.5))
    del CASES["huber_loss"]
if tf.__version__.startswith("2.0"):
    CASES = {"clipped": CASES["clipped"]}


def batch(model):
    shape = model.input_shape[1:]
    x = random.normal(size=(6, *shape)).astype("float32")
    if model.inputs[0].dtype == tf.int32:
        x = random.randint(0, 5, (6, *shape)).astype("int32")
    t = [random.normal(size=(6, *y.shape[1:])).astype("float32") for y in model.outputs]
    return x, t


def write(make, folder):
    keras.backend.clear_session()
    tf.random.set_seed(3)
    random.seed(3)
    model = make()
    for _ in range(3):
        model.train_on_batch(*batch(model))
    os.makedirs(folder)
    model.save(os.path.join(folder, "model.h5"))
    if IS_NEW:
        model.save(os.path.join(folder, "model.keras"))
    if IS_NEW and folder.endswith(("nadam", "adafactor")):
        model.save(os.path.join(folder, "saved_model"), save_format="tf")
    x, t = batch(model)
    loss = np.ravel(model.train_on_batch(x, t))[0]
    stored = {"t_%d" % i: item for i, item in enumerate(t)}
    stored.update({"after_%d" % i: w for i, w in enumerate(model.get_weights())})
    np.savez_compressed(os.path.join(folder, "expected.npz"), x=x, loss=loss, **stored)


if __name__ == "__main__":
    for name in sys.argv[2:] or CASES:
        write(CASES[name], os.path.join(sys.argv[1], tf.__version__, name))
