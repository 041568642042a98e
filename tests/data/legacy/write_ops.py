"""Writes functional models made with raw TensorFlow functions, one a case.

    python write_ops.py OUTDIR [CASE ...]
    cd OUTDIR
    tar --sort=name --mtime=2020-01-01 --owner=root:0 --group=root:0 -cJf \\
        2.15.1.tar.xz 2.15.1/*/model.h5 2.15.1/*/expected.npz

Under each of TensorFlow 2.0.0, 2.3.4, 2.4.4 and 2.15.1. A case of `op_table.py` goes
to OUTDIR/<release>/<case>/: `model.h5`, `saved_model/`, `model.keras` (2.15),
`expected.npz` with inputs `x_*` and outputs `y_*`, and `expected.json` with the forms
that are there and TensorFlow's error for those that are not.

The last command packs what the tests open, of 2.3.4 and 2.15.1. To add a case, first
unpack the archive of the release in `ops/` to OUTDIR.
"""

import json
import os
import shutil
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import numpy as np
import tensorflow as tf
from op_table import CASES, LEFT_OUT, MIXED, RECORDED

keras = tf.keras
RELEASE = tuple(int(part) for part in tf.__version__.split(".")[:2])
BATCH, FREE_AXIS = 3, 5
FORMS = {"model.h5": "h5", "saved_model": "tf"}
if RELEASE >= (2, 12):
    FORMS["model.keras"] = "keras"
NAMES = list(CASES) + [name + "-mixed_float16" for name in MIXED]


def exists(name):
    case = name.partition("-")[0]
    return not any(
        RELEASE in releases and case in cases.split() for releases, cases in LEFT_OUT
    )


def set_policy(name):
    if RELEASE < (2, 4):
        keras.mixed_precision.experimental.set_policy(name)
    else:
        keras.mixed_precision.set_global_policy(name)


def one(values):
    return values[0] if len(values) == 1 else values


def symbolic(low, high, **options):
    return keras.Input(**options)


def sample(random, shape, dtype, low, high, **options):
    """Return an array for the input of this specification."""
    shape = (BATCH, *(axis or FREE_AXIS for axis in shape))
    values = random.uniform(low, high, shape)
    return (values if dtype == "float32" else np.floor(values)).astype(dtype)


def build(name):
    specs, make = CASES[name]
    inputs = [symbolic(**spec) for spec in specs]
    made = make(*inputs)
    return made if isinstance(made, keras.Model) else keras.Model(one(inputs), made)


def save(model, folder):
    """Save in every format that the release has; return the errors by format."""
    errors = {}
    for form, save_format in FORMS.items():
        path = os.path.join(folder, form)
        try:
            model.save(path, save_format=save_format)
        except Exception as error:
            errors[form] = f"{type(error).__name__}: {error}"[:500]
            if os.path.isdir(path):
                shutil.rmtree(path)
            elif os.path.exists(path):
                os.remove(path)
    return errors


def write(name, folder):
    case, _, policy = name.partition("-")
    keras.backend.clear_session()
    random = np.random.RandomState(7)
    tf.random.set_seed(7)
    set_policy(policy or "float32")
    model = build(case)
    arrays = [sample(random, **spec) for spec in CASES[case][0]]
    outputs = tf.nest.flatten(model(one([tf.constant(x) for x in arrays])))
    stored = {f"x_{i}": x for i, x in enumerate(arrays)}
    for i, output in enumerate(outputs[: RECORDED.get(case)]):
        stored[f"y_{i}"] = np.asarray(output)
    os.makedirs(folder)
    errors = save(model, folder)
    np.savez_compressed(os.path.join(folder, "expected.npz"), **stored)
    about = {
        "written": [form for form in FORMS if form not in errors],
        "not_written": errors,
        "tf_version": tf.__version__,
    }
    with open(os.path.join(folder, "expected.json"), "w") as file:
        json.dump(about, file, indent=1)
    print(tf.__version__, name, errors or "", flush=True)


def main(out, *names):
    for name in names or filter(exists, NAMES):
        write(name, os.path.join(out, tf.__version__, name))


if __name__ == "__main__":
    main(*sys.argv[1:])
