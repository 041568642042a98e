"""Writes models of classes that will be lost, one a case.

    python write_lost.py OUTDIR TABLE [CASE ...]

TABLE is `lost_table` or `loop_table` (under TensorFlow 2.0.0, 2.4.4, 2.9.3 and 2.15.1),
`idiom_table` (under 2.0.0, 2.4.4 and 2.15.1), `bend_table` (under 2.15.1), or `example_table`,
`fault_table`, `training_table`, `gradient_table` or `nearly_table` (under 2.4.4 and 2.15.1). A
case goes to OUTDIR/<release>/<case>/:

`model/`: the SavedModel; `model.h5`: the same model as H5, where that says all.

`expected.npz`: inputs `x_*` and outputs `y_*` of the model in inference, in the order
of `tf.nest.flatten`; `x2_*` and `y2_*`, the same of another batch size, and of other
lengths where these are unknown; the weights as they were saved `w_*`, those that are
trained first; `losses`, which regularizers add. If the case trains, the targets `t_*`
of one step of SGD at the rate 0.1, its loss (the sum over outputs of the mean squared
error), and the weights after it, `a_*`. If it was compiled, Adam's slots `m_*` and
`v_*` of each weight that is trained. Of random outputs, the means `mean_*` and the
standard deviations `std_*` over many draws, if the table asks for them.

`about.json`: the structures of inputs and outputs, where a number n stands for `x_n` or
`y_n`; the keys of a dict of outputs in the model's order; the names of the weights; the
outputs that random draws change; TensorFlow's error if it does not open the model
without its classes.
"""

import importlib
import json
import os
import shutil
import sys
import warnings
import zlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import numpy as np
import tensorflow as tf
from lost_table import RELEASE, Spec

keras = tf.keras
warnings.simplefilter("ignore")
tf.get_logger().setLevel("ERROR")
RATE = 0.1
# The lengths of a shape's axes of unknown length, in the first and the second batch.
LENGTHS = (5, 6, 8), (7, 4, 9)
DRAWS = 2000
OWNED = keras.layers.Layer, keras.constraints.Constraint


def names(table):
    """Return the names of the cases that this release has."""
    mixed = getattr(table, "MIXED", {}).items()
    found = [name for name, case in table.CASES.items() if exists(case)]
    more = ["%s-%s" % (name, key) for key, names in mixed for name in names.split()]
    return found + [name for name in more if exists(table.CASES[name.split("-")[0]])]


def exists(case):
    return case.since <= RELEASE <= case.until


def set_policy(name):
    if RELEASE < (2, 4):
        keras.mixed_precision.experimental.set_policy(name)
    else:
        keras.mixed_precision.set_global_policy(name)


def mapped(function, structure):
    """Return a structure of the same form, of lists, tuples and dicts."""
    if isinstance(structure, dict):
        return {key: mapped(function, structure[key]) for key in sorted(structure)}
    if isinstance(structure, (list, tuple)) and not isinstance(structure, Spec):
        return type(structure)(mapped(function, item) for item in structure)
    return function(structure)


def numbered(structure):
    """Return the structure with the number of each item in its place."""
    count = iter(range(10**6))
    return mapped(lambda item: next(count), structure)


def randomize(weights, random):
    """Draw new float weights, positive ones where they are variances."""
    for weight in weights:
        if not weight.dtype.is_floating:
            continue
        positive = any(part in weight.name for part in ("variance", "std"))
        low, high = (0.5, 1.5) if positive else (-0.9, 0.9)
        weight.assign(rounded(random.uniform(low, high, weight.shape)))


def rounded(values):
    """Return float32 values of few bits, which are well compressed."""
    return np.round(values * 256).astype("float32") / 256


def sample(case, number, random):
    """Return the inputs of the first batch (number 0), or of the second (1)."""

    def draw(item):
        lengths = iter(LENGTHS[number])
        shape = [(item.rows or case.batches)[number]]
        shape += [next(lengths) if axis is None else axis for axis in item.shape]
        drawn = random.uniform(item.low, item.high, shape)
        drawn = rounded(drawn) if item.dtype == "float32" else drawn.astype(item.dtype)
        return tf.constant(np.sort(drawn, axis=0) if item.is_sorted else drawn)

    return mapped(draw, case.inputs)


def arrays(key, items):
    """Return `{"x_0": ...}`; bfloat16, which numpy does not store, as float32."""
    items = [tf.convert_to_tensor(item) for item in items]
    items = [tf.cast(x, "float32") if x.dtype == "bfloat16" else x for x in items]
    return {"%s_%d" % (key, i): item.numpy() for i, item in enumerate(items)}


def ordered(model):
    return model.trainable_weights + model.non_trainable_weights


def step(model, x, random):
    """Take a training step; return its targets, its loss, and the weights after it."""
    before = model.get_weights()
    with tf.GradientTape() as tape:
        outputs = tf.nest.flatten(model(x, training=True))
        outputs = [tf.cast(y, "float32") for y in outputs]
        targets = [rounded(random.uniform(-1, 1, y.shape)) for y in outputs]
        errors = [tf.reduce_mean((y - t) ** 2) for y, t in zip(outputs, targets)]
        added = [tf.reduce_sum(tf.cast(item, "float32")) for item in model.losses]
        loss = tf.add_n(errors + added)
    variables = model.trainable_weights
    gradients = tape.gradient(loss, variables)
    for variable, gradient in zip(variables, gradients):
        if gradient is not None:
            gradient = tf.convert_to_tensor(gradient)
            variable.assign_sub(tf.cast(RATE * gradient, variable.dtype))
    found = dict(arrays("t", targets), **arrays("a", ordered(model)), loss=loss.numpy())
    model.set_weights(before)
    return found


def train_compiled(model, x, random):
    """Train a compiled model, so that its optimizer has slots."""
    y = random.uniform(-1, 1, model(x).shape).astype("float32")
    model.fit(x, y, epochs=2, batch_size=len(y), verbose=0)


def slots(model):
    optimizer, variables = model.optimizer, model.trainable_weights
    if hasattr(optimizer, "get_slot"):
        m, v = ([optimizer.get_slot(w, key) for w in variables] for key in "mv")
    else:
        m, v = optimizer._momentums, optimizer._velocities
    return dict(arrays("m", m), **arrays("v", v))


def reload(path, x, y, random):
    """Return what is wrong with the model as TensorFlow opens it, or None."""
    try:
        model = keras.models.load_model(path, compile=False)
        found = tf.nest.flatten(model(x, training=False))
    except Exception as error:
        return (type(error).__name__ + ": " + " ".join(str(error).split()))[:400]
    for i, (one, two) in enumerate(zip(found, y)):
        one, two = (tf.cast(item, "float32").numpy() for item in (one, two))
        if i not in random and not np.allclose(one, two, 1e-2, 1e-3):
            return "another output %d" % i
    return None


def distribution(model, x):
    """Return the means and standard deviations of outputs that are random."""
    draws = [tf.nest.flatten(model(x, training=False)) for _ in range(DRAWS)]
    draws = [np.array(output) for output in zip(*draws)]
    found = arrays("mean", [output.mean(0) for output in draws])
    return dict(found, **arrays("std", [output.std(0) for output in draws]))


def write(table, name, folder):
    case_name, _, policy = name.partition("-")
    case = table.CASES[case_name]
    keras.backend.clear_session()
    set_policy(policy or "float32")
    random = np.random.RandomState(zlib.crc32(name.encode()))
    tf.random.set_seed(7)
    model = case.make()
    x = sample(case, 0, random)
    if getattr(model, "inputs", None) is None or not model.built:
        model.predict(mapped(lambda item: item.numpy(), x))
    randomize(model.weights, random)
    stored = {}
    if model.optimizer:
        train_compiled(model, x, random)
    outputs = model(x, training=False)
    y = tf.nest.flatten(outputs)
    stored.update(arrays("x", tf.nest.flatten(x)), **arrays("y", y))
    stored.update(arrays("w", ordered(model)))
    stored["losses"] = np.array([tf.reduce_sum(x) for x in model.losses], "float32")
    if model.optimizer:
        stored.update(slots(model))
    if case.trains:
        stored.update(step(model, x, random))
    os.makedirs(folder)
    path = os.path.join(folder, "model")
    model.save(path, save_format="tf")
    if case.h5:
        model.save(path + ".h5", save_format="h5")
    # After saving: the shapes of the first call are those that the file records.
    others = sample(case, 1, random)
    stored.update(arrays("x2", tf.nest.flatten(others)))
    stored.update(arrays("y2", tf.nest.flatten(model(others, training=False))))
    if case.random and getattr(table, "HAS_DISTRIBUTIONS", False):
        stored.update(distribution(model, x))
    np.savez(os.path.join(folder, "expected.npz"), **stored)
    about = {
        "tf_version": tf.__version__,
        "kind": case.kind,
        "policy": policy or "float32",
        "inputs": numbered(x),
        "outputs": numbered(outputs),
        "output_keys": list(outputs) if isinstance(outputs, dict) else None,
        "trainable": [w.name for w in model.trainable_weights],
        "non_trainable": [w.name for w in model.non_trainable_weights],
        "random_outputs": list(case.random),
        "trains": case.trains,
        "compiled": bool(model.optimizer),
        "tf_reload": reload(path, x, y, case.random),
    }
    with open(os.path.join(folder, "about.json"), "w") as file:
        json.dump(about, file, indent=1)


def main(out, table, *chosen):
    failed = []
    table = importlib.import_module(table)
    for name in chosen or names(table):
        folder = os.path.join(out, tf.__version__, name)
        if os.path.exists(os.path.join(folder, "about.json")):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        try:
            write(table, name, folder)
        except Exception as error:
            failed.append("%s: %s: %s" % (name, type(error).__name__, error))
            print("FAILED", failed[-1][:600], flush=True)
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit("%d failed" % len(failed) if failed else None)


if __name__ == "__main__":
    main(*sys.argv[1:])
