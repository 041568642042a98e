"""Writes two models of classes that will be lost, and how tf.keras fine-tunes them.

    python write_fine_tuning.py OUTDIR

Under TensorFlow 2.15.1. A vector-quantized autoencoder, whose codebook learns by an added
loss alone, and a transformer classifier, whose dropouts are ops, go to
OUTDIR/<name>/model. tf.keras opens each again without its classes, three times, and takes
300 steps of Adam on batches that a seed chooses: OUTDIR/<name>/expected.npz has the data
`x` and `y`, the losses of all steps `loss` (3, 300), and of the weights at the end the
norms `norms` (3, weights).
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
SEEDS, STEPS, BATCH, ROWS = 3, 300, 32, 512


class VectorQuantizer(layers.Layer):
    def build(self, shape):
        self.codes = self.add_weight("codes", (4, 16), initializer="uniform")

    def call(self, x):
        distances = (
            tf.reduce_sum(x**2, axis=1, keepdims=True)
            + tf.reduce_sum(self.codes**2, axis=0)
            - 2 * tf.matmul(x, self.codes)
        )
        chosen = tf.one_hot(tf.argmin(distances, axis=1), 16)
        quantized = tf.matmul(chosen, self.codes, transpose_b=True)
        commitment = tf.reduce_mean((tf.stop_gradient(quantized) - x) ** 2)
        codebook = tf.reduce_mean((quantized - tf.stop_gradient(x)) ** 2)
        self.add_loss(0.25 * commitment + codebook)
        return x + tf.stop_gradient(quantized - x)


def autoencoder(random):
    x = keras.Input((8,))
    code = layers.Dense(4)(layers.Dense(16, activation="relu")(x))
    y = layers.Dense(16, activation="relu")(VectorQuantizer()(code))
    centers = random.normal(size=(10, 8))
    data = centers[random.randint(10, size=ROWS)] + 0.1 * random.normal(size=(ROWS, 8))
    data = data.astype("float32")
    return keras.Model(x, layers.Dense(8)(y)), data, data, "mse"


class Block(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.query, self.key, self.value = (layers.Dense(8) for _ in range(3))
        self.first, self.second = layers.LayerNormalization(), layers.Dense(8)

    def call(self, x, training=None):
        scores = tf.matmul(self.query(x), self.key(x), transpose_b=True)
        weights = tf.nn.softmax(scores / 8**0.5)
        if training:
            weights = tf.nn.dropout(weights, 0.2)
        x = self.first(x + tf.matmul(weights, self.value(x)))
        y = self.second(x)
        if training:
            y = tf.nn.dropout(y, 0.3)
        return x + y


def transformer(random):
    x = keras.Input((12,), dtype="int32")
    y = Block()(layers.Embedding(20, 8)(x))
    y = layers.Dense(2, activation="softmax")(layers.GlobalAveragePooling1D()(y))
    data = random.randint(20, size=(ROWS, 12)).astype("int32")
    labels = (np.sum(data < 7, axis=1) > np.sum(data > 12, axis=1)).astype("int32")
    return keras.Model(x, y), data, labels, "sparse_categorical_crossentropy"


def batches(seed):
    random = np.random.RandomState(seed)
    return [random.randint(ROWS, size=BATCH) for _ in range(STEPS)]


def fine_tuned(path, x, y, loss, seed):
    tf.random.set_seed(seed)
    model = keras.models.load_model(path, compile=False)
    model.compile(keras.optimizers.Adam(0.005), loss)
    losses = [model.train_on_batch(x[rows], y[rows]) for rows in batches(seed)]
    return losses, [float(np.linalg.norm(w)) for w in model.get_weights()]


def main(out):
    for name, make in ("autoencoder", autoencoder), ("transformer", transformer):
        keras.backend.clear_session()
        tf.random.set_seed(7)
        model, x, y, loss = make(np.random.RandomState(3))
        path = os.path.join(out, name, "model")
        model.save(path, save_format="tf")
        found = [fine_tuned(path, x, y, loss, seed) for seed in range(SEEDS)]
        losses, norms = (np.array(each, "float32") for each in zip(*found))
        expected = {"x": x, "y": y, "loss": losses, "norms": norms}
        np.savez(os.path.join(out, name, "expected.npz"), **expected)
        print(name, losses[:, 0], losses[:, -20:].mean(axis=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
