"""Writes `digits/`: two models that TensorFlow 2.4 trained on scikit-learn's digits.

    python write_digits.py digits.npz OUTDIR

With TensorFlow 2.4.4, and a `digits.npz` of `x`, `y`: what
`sklearn.datasets.load_digits(return_X_y=True)` returns. Both have learned from the
first 900 images; `expected.npz` has the images after these as `x_0`, and what the model
predicted for them as `y_0`.

- `conv/saved_model`: a convolutional network under mixed_float16.
- `dense/model.h5`: a dense one, with an explicit LossScaleOptimizer of a fixed scale.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
mixed_precision = keras.mixed_precision
SEEN = 900  # images


def conv():
    inputs = keras.Input((8, 8, 1), name="image")
    x = inputs / 16.0  # an op layer
    x = layers.Conv2D(8, 3, activation="relu")(x)
    x = layers.BatchNormalization()(x)
    x = layers.Conv2D(16, 3, activation="relu")(x)
    x = layers.Flatten()(x)
    x = layers.Dense(10)(x)
    outputs = layers.Activation("softmax", dtype="float32")(x)
    model = keras.Model(inputs, outputs, name="conv")
    model.compile(
        keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", ["accuracy"]
    )
    return model


def dense():
    model = keras.Sequential(
        [
            layers.Flatten(input_shape=(8, 8, 1)),
            layers.Dense(32, activation="relu"),
            layers.Dropout(0.2),
            layers.Dense(10, activation="softmax", dtype="float32"),
        ],
        name="dense",
    )
    optimizer = keras.optimizers.SGD(0.005, momentum=0.9)
    optimizer = mixed_precision.LossScaleOptimizer(
        optimizer, dynamic=False, initial_scale=128
    )
    model.compile(optimizer, "sparse_categorical_crossentropy", ["accuracy"])
    return model


def main(digits, folder):
    tf.random.set_seed(0)
    np.random.seed(0)
    mixed_precision.set_global_policy("mixed_float16")
    with np.load(digits) as data:
        x, y = data["x"].reshape(-1, 8, 8, 1).astype("float32"), data["y"]
    for make, form in (conv, "saved_model"), (dense, "model.h5"):
        model = make()
        model.fit(x[:SEEN], y[:SEEN], batch_size=32, epochs=4, verbose=2)
        where = os.path.join(folder, make.__name__)
        os.makedirs(where, exist_ok=True)
        model.save(os.path.join(where, form))
        rest = x[SEEN : SEEN + 100]
        recorded = model.predict(rest)
        np.savez_compressed(os.path.join(where, "expected.npz"), x_0=rest, y_0=recorded)
        print(model.evaluate(x[SEEN:], y[SEEN:], verbose=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
