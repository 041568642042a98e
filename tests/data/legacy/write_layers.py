"""Writes a model of every layer class there is in the TensorFlow that runs it.

    python write_layers.py OUTDIR [CLASS ...]

Under each of TensorFlow 2.0.0, 2.4.4, 2.10.1 and 2.15.1. The classes are found by a
walk through `tf.keras`; `layer_table.py` says how to build each, and the script fails
if one is in none of its tables. A model goes to OUTDIR/<release>/
<class>-<variant>-<policy>/: `saved_model/`, `model.h5`, `model.keras` (2.15),
`expected.npz` (inputs `x_*`, outputs `y_*`, weights `w_*`) and `expected.json`, which
holds what TensorFlow refused to write or to reload. A folder that is there is left.
"""

import json
import os
import shutil
import sys
import zlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import numpy as np
import tensorflow as tf

from layer_table import LAYERS, NO_FLOAT16, NOT_BUILT, Of

keras = tf.keras
RELEASE = tuple(int(part) for part in tf.__version__.split(".")[:2])
FORMS = {"saved_model": "tf", "model.h5": "h5"}
if RELEASE >= (2, 15):
    FORMS["model.keras"] = "keras"
# Where layers are, those of TensorFlow 1 last: they count if they differ.
PRIVATE_API = (
    "keras.layers",
    "keras.layers.experimental",
    "keras.layers.experimental.preprocessing",
    "keras.experimental",
    "compat.v1.keras.layers",
    "compat.v1.keras.layers.experimental",
    "compat.v1.keras.layers.experimental.preprocessing",
)


def walk():
    """Return `{name: class}` of the layers of this release."""
    found = {}
    for place in PRIVATE_API:
        module = tf
        for part in place.split("."):
            module = getattr(module, part, None)
        for item in (getattr(module, name) for name in dir(module)):
            is_layer = isinstance(item, type) and issubclass(item, keras.layers.Layer)
            if is_layer and item not in found.values():
                v1 = "_v1" if place.startswith("compat") else ""
                found[item.__name__ + v1] = item
    return found


CLASSES = walk()


def built(item):
    """Return `item`, an argument, with its layers built."""
    if isinstance(item, Of):
        return CLASSES[item.name](*built(item.args), **built(item.kwargs))
    if isinstance(item, dict):
        return {key: built(value) for key, value in item.items()}
    if type(item) in (list, tuple):
        return type(item)(built(value) for value in item)
    return item


def sample(spec, random):
    """Return the input array that `spec` describes, a batch of two if it is drawn."""
    if spec.values is not None:
        return np.array(spec.values, None if spec.dtype == "string" else spec.dtype)
    draw = random.randint if spec.dtype.startswith("int") else random.uniform
    drawn = draw(spec.low, spec.high, (2, *spec.shape)).astype(spec.dtype)
    if spec.pad:
        drawn[1:, slice(-2, None) if spec.pad == "right" else slice(2)] = 0
    return drawn


def samples(case, random):
    """Return the input arrays, in the order of `tf.nest.flatten`."""
    specs = case.inputs
    if isinstance(specs, dict):
        specs = [specs[key] for key in sorted(specs)]
    return [sample(spec, random) for spec in specs]


def make(name, case, layer, transposed=False):
    """Return the Functional model of `layer`."""

    def entry(key, spec):
        shape = spec.shape[1:] + spec.shape[:1] if transposed else spec.shape
        batch = 2 if case.fixed else None
        return keras.Input(shape, batch, name=key, dtype=spec.dtype)

    if isinstance(case.inputs, dict):
        inputs = {key: entry(key, spec) for key, spec in case.inputs.items()}
    else:
        inputs = [entry("x_%d" % i, spec) for i, spec in enumerate(case.inputs)]
    given = inputs
    if case.before:
        given = [built(case.before)(tensor) for tensor in inputs]
    alone = isinstance(given, list) and len(given) == 1
    outputs = layer(*(given if case.spread or alone else [given]), **case.call)
    if case.after:
        outputs = built(case.after)(outputs)
    return keras.Model(inputs, outputs, name=name)


def randomize(model, random):
    """Draw new float weights, positive ones where they are variances."""
    for weight in model.weights:
        # Tables are weights too, and inverse document frequencies of any length.
        if not hasattr(weight, "assign") or not weight.shape.is_fully_defined():
            continue
        if not weight.dtype.is_floating:
            continue
        positive = any(part in weight.name for part in ("variance", "std"))
        low, high = (0.5, 1.5) if positive else (-0.9, 0.9)
        weight.assign(random.uniform(low, high, weight.shape).astype("float32"))


def plain(value):
    """Return `value` as an array that numpy stores without pickle."""
    if isinstance(value, tf.SparseTensor):
        value = tf.sparse.to_dense(value)
    if isinstance(value, tf.RaggedTensor):
        value = value.to_tensor()
    value = np.asarray(value)
    is_text = value.dtype == object
    return np.char.decode(value.astype("S"), "utf-8") if is_text else value


def runs(case):
    return not (case.by or case.last)


def predict(model, case, x):
    if case.fixed:
        model.reset_states()
    x = [tf.constant(item) for item in x]
    if isinstance(case.inputs, dict):
        x = dict(zip(sorted(case.inputs), x))
    outputs = model(x[0] if isinstance(x, list) and len(x) == 1 else x, training=False)
    return [plain(item) for item in tf.nest.flatten(outputs)]


def predict_by_twin(name, case, x, h5):
    """Return what another layer gives, which the CPU can run, with the same weights."""
    kwargs = dict(case.kwargs, data_format="channels_last")
    layer = case.by or Of(name, case.args, kwargs)
    layer = layer._replace(kwargs=dict(layer.kwargs, name="layer"))
    twin = make("twin", case, built(layer), case.last)
    twin.load_weights(h5)
    if not case.last:
        return predict(twin, case, x)
    outputs = predict(twin, case, [np.moveaxis(item, 1, -1) for item in x])
    return [np.moveaxis(item, -1, 1) for item in outputs]


def reason(error):
    return (type(error).__name__ + ": " + " ".join(str(error).split()))[:400]


def remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)


def save(model, folder):
    """Save in every form; return `(written, not_written)`."""
    written, not_written = [], {}
    for form, save_format in FORMS.items():
        try:
            model.save(os.path.join(folder, form), save_format=save_format)
            written.append(form)
        except Exception as error:
            not_written[form] = reason(error)
            remove(os.path.join(folder, form))
    return written, not_written


def same(one, two):
    if one.dtype.kind in "US":
        return one.tolist() == two.tolist()
    if (one.dtype, one.shape) != (two.dtype, two.shape):
        return False
    near = 2e-3 if one.dtype == "float16" else 1e-5
    one, two = one.astype("float64"), two.astype("float64")
    return np.allclose(one, two, rtol=near, atol=near / 10)


def reload(path, case, x, y, w):
    """Return what is wrong with the model as TensorFlow reads it, or None."""
    options = {"safe_mode": False} if path.endswith(".keras") else {}
    try:
        model = keras.models.load_model(path, compile=False, **options)
        if runs(case):
            outputs = predict(model, case, x)
            if not all(map(same, outputs, y)):
                return "other outputs, of " + outputs[0].dtype.name
        weights = [plain(item) for item in model.get_weights()]
        if len(weights) != len(w) or not all(map(same, weights, w)):
            return "other weights, or another order of them"
    except Exception as error:
        return reason(error)
    return None


def set_policy(policy):
    if RELEASE < (2, 4):
        keras.mixed_precision.experimental.set_policy(policy)
    else:
        keras.mixed_precision.set_global_policy(policy)


def build(name, case, random):
    """Return the model of a case, its weights drawn if they are not given."""
    kwargs = dict(built(case.kwargs), name="layer")
    layer = CLASSES["RNN" if "Cell" in name else name](*built(case.args), **kwargs)
    if case.adapt is not None:
        layer.adapt(np.array(case.adapt))
    model = make("model", case, layer)
    if case.adapt is None and "mean" not in case.kwargs:
        randomize(model, random)
    return model


def write(name, variant, policy, folder):
    case = LAYERS[name][variant]
    keras.backend.clear_session()
    set_policy(policy)
    random = np.random.RandomState(zlib.crc32((name + variant).encode()))
    x = samples(case, random)
    model = build(name, case, random)
    # Before the save: TensorFlow 2.0 leaves traced calls in the layers.
    y = predict(model, case, x) if runs(case) else None
    os.makedirs(folder, exist_ok=True)
    written, not_written = save(model, folder)
    if not runs(case):
        y = predict_by_twin(name, case, x, os.path.join(folder, "model.h5"))
    w = [plain(item) for item in model.get_weights()]
    arrays = {
        "%s_%d" % (key, i): plain(item)
        for key, items in (("x", x), ("y", y), ("w", w))
        for i, item in enumerate(items)
    }
    np.savez_compressed(os.path.join(folder, "expected.npz"), **arrays)
    wrong = {
        form: reload(os.path.join(folder, form), case, x, y, w) for form in written
    }
    about = {
        "class": name,
        "variant": variant,
        "policy": policy,
        "tf_version": tf.__version__,
        "written": written,
        "not_written": not_written,
        "tf_reload": {form: what for form, what in wrong.items() if what},
    }
    if not runs(case):
        about["outputs_by"] = case.by.name if case.by else "channels_last"
    with open(os.path.join(folder, "expected.json"), "w") as file:
        json.dump(about, file, indent=1)


def runs_in_float16(name, variant):
    return not any(
        first <= RELEASE <= last and {name, name + "-" + variant} & set(names)
        for first, last, _, names in NO_FLOAT16
    )


def chosen(names):
    """Yield `(class, variant, policy)` of everything this release can build."""
    for name in sorted(set(CLASSES) & set(names or LAYERS) & set(LAYERS)):
        for variant, case in LAYERS[name].items():
            if case.since <= RELEASE <= case.until:
                yield name, variant, "float32"
                if runs_in_float16(name, variant):
                    yield name, variant, "mixed_float16"


def main(out, *names):
    unknown = sorted({*CLASSES, *names} - set(LAYERS) - set(NOT_BUILT))
    if unknown:
        sys.exit("In neither table of layer_table.py: " + ", ".join(unknown))
    failed = []
    for case in sorted(chosen(names), key=lambda case: case[2]):
        folder = os.path.join(out, tf.__version__, "-".join(case))
        if os.path.exists(os.path.join(folder, "expected.json")):
            continue
        try:
            write(*case, folder)
        except Exception as error:
            failed.append("%s: %s" % ("-".join(case), reason(error)))
            print("FAILED", failed[-1], flush=True)
            remove(folder)
    sys.exit("%d failed" % len(failed) if failed else None)


if __name__ == "__main__":
    main(*sys.argv[1:])
