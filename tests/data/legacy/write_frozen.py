"""Writes models with frozen parts: `tests/data/legacy/frozen.tar.xz`.

Run by hand: `python write_frozen.py OUTDIR`, under TensorFlow 2.4.4 and 2.15.1. Each of
`frozen_models.py` goes to OUTDIR/<release>/<case>/: `model.h5`, `weights.h5`, and its
input and output in `expected.npz`.
"""

import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "helpers"))
import frozen_models


def write(name, model):
    random = np.random.RandomState(3)
    for variable in model.weights:
        # A few bits each, which compress; equal shapes get other values.
        value = random.randint(-8, 9, variable.shape) / np.float32(8)
        is_variance = "variance" in variable.name
        variable.assign(np.abs(value) + 0.5 if is_variance else value)
    is_graph = name in frozen_models.MODELS
    shape = model.input_shape[1:] if is_graph else (4,)
    x = random.uniform(-1, 1, (2, *shape)).astype("float32")
    folder = os.path.join(sys.argv[1], tf.__version__, name)
    os.makedirs(folder)
    model.save_weights(os.path.join(folder, "weights.h5"))
    y = model.predict(x)
    np.savez_compressed(os.path.join(folder, "expected.npz"), x=x, y=y)
    if not is_graph:
        return
    model.save(os.path.join(folder, "model.h5"), include_optimizer=False)
    objects = {"Pair": frozen_models.pair(tf.keras)}
    again = tf.keras.models.load_model(os.path.join(folder, "model.h5"), objects)
    print(tf.__version__, name, "reopened:", np.abs(again.predict(x) - y).max(), "of", y)


if __name__ == "__main__":
    models = {**frozen_models.MODELS, **frozen_models.SUBCLASSED}
    for name, (make, _) in models.items():
        tf.keras.backend.clear_session()
        write(name, make(tf.keras))
