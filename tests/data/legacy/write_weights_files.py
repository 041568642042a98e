"""Writes `.weights.h5` files of random models: `weights_files.tar.xz` has some of them.

    python write_weights_files.py OUTDIR FIRST LAST

Under TensorFlow 2.12.1, 2.13.1 and 2.15.1. OUTDIR/<release>/<seed>/ gets `x.weights.h5`
and `expected.npz`, with each weight by the layer that has it, and, of every third seed,
the first slot of its optimizer. `tools/weights_files.py OUTDIR` opens them.
"""

import os
import pathlib
import sys
import traceback

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "helpers"))
import weights_models

tf.config.run_functions_eagerly(True)  # noqa: FBT003 (it takes no name)
RELEASE = [int(part) for part in tf.__version__.split(".")[:2]]


def write(seed, folder):
    tf.keras.backend.clear_session()
    built = weights_models.Built(tf.keras, seed, RELEASE[0] * 100 + RELEASE[1])
    stored = {}
    if seed % 3 == 0:
        built.train()
    start = 1
    for path, variable in built.variables():
        size = int(np.prod(variable.shape, dtype="int64"))
        value = np.arange(start, start + size, dtype="float32").reshape(variable.shape)
        if not any(variable is each for each, _ in stored.values()):
            variable.assign(value)
        stored[path] = variable, variable.numpy()
        start += size
    if len({id(variable) for variable, _ in stored.values()}) != len(built.model.weights):
        raise ValueError("not all weights have a path")
    arrays = {path: value for path, (_, value) in stored.items()}
    if seed % 3 == 0:
        arrays |= {f"m {path}": value for path, value in built.momenta().items()}
    os.makedirs(folder)
    built.model.save_weights(os.path.join(folder, "x.weights.h5"))
    np.savez_compressed(os.path.join(folder, "expected.npz"), **arrays)


def write_plain(folder):
    """Write a model as JSON, with its weights after a step."""
    layers = tf.keras.layers
    inputs = tf.keras.Input((4, 4))
    x = layers.LayerNormalization(axis=1)(layers.Dense(4, activation="relu")(inputs))
    x = layers.Bidirectional(layers.LSTM(2, return_sequences=True))(x)
    x = layers.LayerNormalization()(layers.Dense(4)(x) + x)
    model = tf.keras.Model(inputs, layers.Dense(2)(layers.Flatten()(x)))
    model.compile("adam", "mse")
    x = weights_models.X
    model.train_on_batch(x, np.ones((3, 2)))
    os.makedirs(folder)
    pathlib.Path(folder, "model.json").write_text(model.to_json())
    model.save_weights(os.path.join(folder, "x.weights.h5"))
    np.savez(os.path.join(folder, "expected.npz"), x=x, y=model.predict_on_batch(x))


if __name__ == "__main__":
    if sys.argv[2:] == ["plain"]:
        write_plain(os.path.join(sys.argv[1], tf.__version__, "plain"))
        sys.exit()
    for seed in range(int(sys.argv[2]), int(sys.argv[3])):
        folder = os.path.join(sys.argv[1], tf.__version__, str(seed))
        if os.path.exists(folder):
            continue
        try:
            write(seed, folder)
        except Exception:
            print(seed, traceback.format_exc(limit=-2))
