"""Opens the models that Keras 2.15's own tests save, and prints those that are refused.

    python tools/keras_2_tests.py CHECKOUT FOLDER --python PYTHON [--tests saving ...]

CHECKOUT is a clone of Keras at the tag v2.15.0; PYTHON has TensorFlow 2.15, pytest,
portpicker, scipy and pillow. PYTHON runs the test files that save models (or only those
that `--tests` names, by their paths below `keras/`). `keras_2_plugin.py` keeps each
model in FOLDER, with its outputs, and opens it with tf.keras. If FOLDER already has
models, these steps are skipped. Then the current Python opens all models, and compares
the outputs. Set KERAS_BACKEND=tensorflow, because other backends do not support texts.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import tempfile
import warnings
from pathlib import Path

import _helpers  # noqa: F401 - finds them
import keras
import numpy as np
from legacy_files import arrays

import keras_policies

PLUGIN = Path(__file__).with_name("keras_2_plugin.py")
SAVES = re.compile(r"\.save\(|save_model|saved_model\.save")
SECONDS = 1200  # for the tests of one file
# The tests import the modules of a clone; Keras's wheel has them in keras.src, but for
# the models of integration tests, which are copied beside the test.
MODELS = "integration_test/models"
IMPORTS = (
    (r"^(\s*)from keras\.integration_test", r"\1from integration_test"),
    (r"^(\s*)(from|import) keras\.(?!protobuf)", r"\1\2 keras.src."),
    (r"^(\s*)from keras import", r"\1from keras.src import"),
    (r"^(\s*)import keras$", r"\1import keras.src as keras"),
)
REASON = 150  # characters, by which reasons are grouped
TITLES = {
    (True, True): "stock classes, tf.keras opens it",
    (True, False): "stock classes, tf.keras refuses it",
    (False, True): "own classes, tf.keras opens it",
    (False, False): "own classes, tf.keras refuses it",
    (None, True): "no Keras metadata, TensorFlow runs its signature",
    (None, False): "no Keras metadata, TensorFlow runs none",
}
OUTCOMES = "equal", "not compared", "differs", "raises", "refused"


def run_tests(checkout, kept, python, places):
    """Run the test files that save models under the old Python, one at a time."""
    environment = {
        **os.environ,
        "KEPT": str(kept),
        "PYTHONPATH": str(PLUGIN.parent),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    command = [python, "-m", "pytest", "-q", "-p", PLUGIN.stem]
    for path in sorted((checkout / "keras").rglob("*_test.py")):
        text = path.read_text()
        name = path.relative_to(checkout / "keras").as_posix()
        if not SAVES.search(text) or not name.startswith(tuple(places)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, path.name)
            copy.write_text(imported(text))
            for model in (checkout / "keras" / MODELS).glob("*.py"):
                Path(folder, MODELS).mkdir(parents=True, exist_ok=True)
                Path(folder, MODELS, model.name).write_text(imported(model.read_text()))
            try:
                run = subprocess.run(
                    [*command, copy],
                    cwd=folder,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=SECONDS,
                )
                *_, ended = "killed", *re.findall(r".* in [\d.]+s.*", run.stdout)
            except subprocess.TimeoutExpired:
                ended = f"stopped after {SECONDS} s"
        print(f"{name}: {ended}", flush=True)
    subprocess.run([python, PLUGIN, kept], env=environment, check=True)


def imported(text):
    """Return a module that imports from Keras's wheel."""
    for pattern, replacement in IMPORTS:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def outcome(folder, info):
    """Return `(outcome, reason)` of the model in a folder."""
    (path,) = (*folder.glob("saved_model"), *folder.glob("model*"))
    try:
        model = keras_policies.load_model(path)
    except Exception as error:  # other errors than LegacyModelError are defects, too
        known = isinstance(error, keras_policies.LegacyModelError)
        return "refused", error.reason if known else repr(error)
    if "not_called" in info:
        return "not compared", info["not_called"]
    inputs = arrays(path, "x_")
    if info["names"]:
        inputs = dict(zip(info["names"], inputs, strict=True))
    try:
        found = model(inputs[0] if info["single"] else inputs, training=False)
    except Exception as error:  # whatever a layer of Keras raises
        return "raises", repr(error)
    found = map(keras.ops.convert_to_numpy, keras.tree.flatten(found))
    halved = {"float16", "bfloat16"} & {layer.compute_dtype for layer in model.layers}
    return compare(list(found), arrays(path, "y_"), 2e-2 if halved else 1e-4)


def compare(found, expected, tolerance):
    """Return `(outcome, reason)` of outputs, with a tolerance of the largest number."""
    if [a.shape for a in found] != [b.shape for b in expected]:
        return "differs", f"the shapes {[a.shape for a in found]}"
    for a, b in zip(found, expected, strict=True):
        if b.dtype.kind == "S":
            a, b = np.array(a, "S") != b, np.zeros(b.shape)
        a, b = np.asarray(a, "float64"), np.asarray(b, "float64")
        difference = np.max(np.abs(a - b), initial=0)
        if not difference <= tolerance * np.max(np.abs(b), initial=1e-6):
            return "differs", f"by {difference:.2g}"
    return "equal", ""


def open_all(kept):
    """Open each model; return `{(is stock, does tf.keras open it): Counter}`."""
    counts = collections.defaultdict(collections.Counter)
    reasons = collections.defaultdict(list)
    for folder in sorted(kept.iterdir()):
        info = json.loads((folder / "info.json").read_text())
        own = info["own"]
        group = own if own is None else not own, info["tf_keras"] == "opens"
        ended, reason = outcome(folder, info)
        counts[group][ended] += 1
        if ended != "equal":
            first = re.sub(r"0x\w+|\s+", " ", reason)[:REASON]
            reasons[group, ended, first].append(folder.name)
    for (group, ended, reason), folders in sorted(reasons.items(), key=_order):
        print(f"{TITLES[group]}: {ended}: {len(folders)} ({folders[0]}): {reason}")
    return counts


def _order(item):
    (group, ended, _), folders = item
    return not group[1], group[0] is None, not group[0], ended, -len(folders)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", required=True)
    parser.add_argument("--tests", nargs="+", default=[""])
    given = parser.parse_args()
    kept = given.folder.resolve()
    kept.mkdir(exist_ok=True, parents=True)
    if not any(kept.iterdir()):
        run_tests(given.checkout.resolve(), kept, given.python, given.tests)
    warnings.simplefilter("ignore")
    counts = open_all(kept)
    print("", "| models | number |" + " | ".join(OUTCOMES) + " |", sep="\n")
    print("|---" * (len(OUTCOMES) + 2) + "|")
    for group, title in TITLES.items():
        cells = [sum(counts[group].values()), *(counts[group][o] for o in OUTCOMES)]
        print("|", " | ".join(map(str, [title, *cells])), "|")


if __name__ == "__main__":
    main()
