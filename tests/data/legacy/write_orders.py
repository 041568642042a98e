"""Writes random models with frozen layers: `tests/data/legacy/orders.tar.xz` has some.

    python write_orders.py OUTDIR FIRST LAST [--saved-model]

Under TensorFlow 2.0.0, 2.4.4, 2.9.3 and 2.15.1. The model of each seed goes to
OUTDIR/<release>/<seed>/: `model.h5`, `weights.h5`, the checkpoint `checkpoint`,
`model.keras` (2.15), `spec.json`, and `expected.npz` with each weight by the attributes
that lead to it; no two numbers in them are equal. `--saved-model` adds `saved_model/`,
which takes most of the time.
"""

import json
import os
import pathlib
import shutil
import sys
import traceback

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "helpers"))
import random_models

RELEASE = [int(part) for part in tf.__version__.split(".")[:2]]
RELEASE = RELEASE[0] * 100 + RELEASE[1]


def reopened(folder, stored):
    """Return how many weights tf.keras itself reads as they were; None if it raises."""
    objects = random_models.classes(tf.keras)
    try:
        model = tf.keras.models.load_model(os.path.join(folder, "model.h5"), objects)
    except Exception:  # whatever it raises
        return None
    found = dict(random_models.variables(model))
    return sum(np.array_equal(found[path].numpy(), stored[path]) for path in stored)


def write(seed, folder, has_saved_model):
    tf.keras.backend.clear_session()
    spec = random_models.spec(seed, RELEASE)
    model = random_models.Maker(tf.keras).model(spec)
    start, stored = 1, {}
    for path, variable in random_models.variables(model):
        size = int(np.prod(variable.shape, dtype="int64"))
        if not any(variable is each for each, _ in stored.values()):
            value = np.arange(start, start + size, dtype="float32")
            variable.assign(value.reshape(variable.shape))
        stored[path] = variable, variable.numpy()
        start += size
    arrays = {path: value for path, (_, value) in stored.items()}
    if len({id(variable) for variable, _ in stored.values()}) != len(model.weights):
        raise ValueError("not all weights have a path")
    os.makedirs(folder)
    model.save_weights(os.path.join(folder, "weights.h5"))
    model.save(os.path.join(folder, "model.h5"))
    model.save_weights(os.path.join(folder, "checkpoint"), save_format="tf")
    if RELEASE >= 213:
        model.save(os.path.join(folder, "model.keras"))
    np.savez_compressed(os.path.join(folder, "expected.npz"), **arrays)
    about = {"spec": spec, "tf.keras": [reopened(folder, arrays), len(arrays)]}
    with open(os.path.join(folder, "spec.json"), "w") as file:
        json.dump(about, file)
    if has_saved_model:
        try:
            model.save(os.path.join(folder, "saved_model"), save_format="tf")
        except Exception as error:  # tf.keras cannot trace SpectralNormalization
            shutil.rmtree(os.path.join(folder, "saved_model"), ignore_errors=True)
            print(seed, "no SavedModel:", str(error)[:150])


if __name__ == "__main__":
    for seed in range(int(sys.argv[2]), int(sys.argv[3])):
        folder = os.path.join(sys.argv[1], tf.__version__, str(seed))
        if os.path.exists(folder):
            continue
        try:
            write(seed, folder, "--saved-model" in sys.argv)
        except Exception as error:  # such as two weights of one name, in HDF5 files
            shutil.rmtree(folder, ignore_errors=True)
            where = traceback.extract_tb(error.__traceback__)[-1]
            print(
                seed,
                type(error).__name__,
                str(error)[:150],
                where.filename[-40:],
                where.lineno,
            )
