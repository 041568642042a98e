"""Keeps each model that a test of Keras 2.15 saves; it runs under TensorFlow 2.15.

    KEPT=FOLDER python -m pytest -p keras_2_plugin ...
    python keras_2_plugin.py FOLDER

`keras_2_tests.py` runs both commands. As a plugin of pytest, this copies each file that
tf.keras writes to FOLDER/<number>/, and records inputs, outputs, and the classes that
Keras does not have. As a program, it opens each file with tf.keras, which does not know
these classes. If the file is not a model, like those of `export`, it calls the
signatures.
"""

import functools
import json
import os
import pathlib
import shutil
import signal
import sys

import numpy as np
import tensorflow as tf
from absl import flags

MAX_PER_TEST = 6
MAX_BYTES = 20_000_000
# The sizes that a model leaves open, and the words that it is called on.
BATCH, LENGTH = 3, 5
WORDS = "a", "b", "earth", "wind and fire", "michigan", ""
SECONDS = 60  # to open a file: tf.keras never ends with some of its own
# Folders of Keras with classes for its own tests.
OF_TESTS = (
    "keras.src.mixed_precision.test_util",
    "keras.src.testing_infra",
    "keras.src.tests",
)
OF_KERAS = "keras.src", "builtins", "tensorflow"


def draw(spec, random):
    """Return a tensor that fits a `TensorSpec`; raise TypeError for another spec."""
    if not isinstance(spec, tf.TensorSpec) or spec.shape.rank is None:
        raise TypeError(f"an input of the kind {spec}")
    sizes = enumerate(spec.shape.as_list())
    shape = [size or (LENGTH if axis else BATCH) for axis, size in sizes]
    if spec.dtype == tf.string:
        return tf.constant(random.choice(WORDS, shape).astype(object))
    if spec.dtype.is_integer or spec.dtype.is_bool:
        return tf.cast(random.integers(0, 2, shape), spec.dtype)
    return tf.cast(random.uniform(0, 1, shape), spec.dtype)


def record(model, folder):
    """Write inputs and outputs of a model of one nest of dense tensors.

    Returns:
        Dict for info.json: the names of the inputs if they are a dict, and whether
        there is one input outside of a list.
    """
    if not tf.executing_eagerly():
        raise TypeError("a graph of TensorFlow 1")
    args, kwargs = model.save_spec() or ((), {})
    if len(args) != 1 or kwargs:
        raise TypeError(f"{len(args) + len(kwargs)} arguments")
    random = np.random.default_rng(0)
    x = tf.nest.map_structure(lambda spec: draw(spec, random), args[0])
    write(folder, x, model(x, training=False))
    names = sorted(x) if isinstance(x, dict) else None
    return {"names": names, "single": tf.is_tensor(x)}


def record_signature(path, folder):
    """Write inputs and outputs of the signature of a SavedModel; return as `record`."""
    signatures = tf.saved_model.load(path).signatures
    function = signatures.get("serving_default") or next(iter(signatures.values()))
    random = np.random.default_rng(0)
    specs = function.structured_input_signature[1]
    x = {name: draw(spec, random) for name, spec in specs.items()}
    write(folder, [x[name] for name in sorted(x)], function(**x))
    return {"names": sorted(x) if len(x) > 1 else None, "single": len(x) == 1}


def write(folder, x, y):
    """Write the tensors in `x` and `y` to expected.npz."""
    arrays = {"x": tf.nest.flatten(x), "y": tf.nest.flatten(y)}
    arrays = {f"{k}_{i}": a.numpy() for k, v in arrays.items() for i, a in enumerate(v)}
    texts = {k: np.array(a, "S") for k, a in arrays.items() if is_text(a)}
    np.savez(folder / "expected.npz", **{**arrays, **texts})


def is_text(value):
    return isinstance(value, bytes) or value.dtype == object


def own_classes(model):
    """Return the names of the classes and functions that Keras does not have."""
    parts = [*model._flatten_layers(), *model.metrics, model.optimizer]
    parts += tf.nest.flatten(getattr(model, "loss", None))
    found = [part if hasattr(part, "__name__") else type(part) for part in parts]
    return sorted(
        {
            item.__name__
            for item in found
            if item.__module__.startswith(OF_TESTS)
            or not item.__module__.startswith(OF_KERAS)
        }
    )


def size(path):
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files)


def keep(model, path):
    """Copy a file or folder with what is known about its model."""
    kept = pathlib.Path(os.environ["KEPT"])
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    number = sum(1 for _ in kept.iterdir())
    keep.of_test[test] = keep.of_test.get(test, 0) + 1
    is_small = path.exists() and size(path) <= MAX_BYTES
    if keep.of_test[test] > MAX_PER_TEST or not is_small:
        return
    folder = kept / f"{number:04}"
    folder.mkdir()
    copy = shutil.copytree if path.is_dir() else shutil.copy
    copy(path, folder / ("saved_model" if path.is_dir() else f"model{path.suffix}"))
    is_model = isinstance(model, tf.keras.Model)
    info = {"test": test, "own": own_classes(model) if is_model else None}
    try:
        info |= record(model, folder) if is_model else {}
    except Exception as error:  # whatever the model of a test raises
        info["not_called"] = f"{type(error).__name__}: {error}"[:300]
    (folder / "info.json").write_text(json.dumps(info, indent=1))


keep.of_test = {}


def keeping(save):
    """Return the function `save` of Keras, which keeps what it saves, too."""

    @functools.wraps(save)
    def saved(model, filepath, *args, **kwargs):
        result = save(model, filepath, *args, **kwargs)
        is_path = isinstance(filepath, (str, os.PathLike))
        if is_path:
            keep(model, pathlib.Path(filepath))
        return result

    return saved


def pytest_configure():
    flags.FLAGS(["pytest"])  # tests of absl read them
    from keras.src.saving import saving_lib
    from keras.src.saving.legacy import hdf5_format
    from keras.src.saving.legacy.saved_model import save as saved_models

    for place, name in (
        (saving_lib, "save_model"),
        (hdf5_format, "save_model_to_hdf5"),
        (saved_models, "save"),
        (tf.saved_model, "save"),
        (tf.compat.v2.saved_model, "save"),
    ):
        setattr(place, name, keeping(getattr(place, name)))


def reopen(folder):
    """Write to info.json whether tf.keras opens a file; record missing outputs."""
    info = json.loads((folder / "info.json").read_text())
    if "tf_keras" in info:
        return
    (path,) = (*folder.glob("saved_model"), *folder.glob("model*"))
    signal.alarm(SECONDS)
    try:
        if info["own"] is None:
            info |= record_signature(path, folder)
        else:
            model = tf.keras.models.load_model(path)
        info["tf_keras"] = "opens"
    except Exception as error:  # whatever tf.keras raises
        info["tf_keras"] = f"{type(error).__name__}: {error}"[:300]
        if info["own"] is None:
            info["not_called"] = info["tf_keras"]
    signal.alarm(0)
    if info["tf_keras"] == "opens" and "not_called" in info:
        try:
            info |= record(model, folder)
            del info["not_called"]
        except Exception as error:  # whatever the model raises
            info["not_called"] = f"{type(error).__name__}: {error}"[:300]
    (folder / "info.json").write_text(json.dumps(info, indent=1))
    tf.keras.backend.clear_session()


def stop(*_):
    raise TimeoutError(f"not open after {SECONDS} s")


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, stop)
    for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        reopen(folder)
