"""How long does opening a legacy model take, compared with tf.keras 2.15?

    KERAS_BACKEND=jax python benchmarks/bench_legacy_load.py --tf PYTHON_OF_TF_2_15

PYTHON_OF_TF_2_15 is the Python of an environment with `tensorflow-cpu==2.15.1`. The
SavedModels are the ones in tests/data that tf.keras 2.15 can load too. Processes of
both sides run in turns; a ratio is the median, over the models, of the ratio of two
medians.

Then a tiny, a deep (1,000 layers) and a large model (1 GB) are opened, each beside
stock Keras, which opens the file that it was converted to.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
LEGACY = ROOT / "tests" / "data" / "legacy"
TARGETS = {"process": 3.0, "read": 10.0}
SPARE_BYTES = 50e6  # beside the weights

BY_TF = """
import sys, time
import tensorflow as tf
times = []
for _ in range(int(sys.argv[2])):
    tf.keras.backend.clear_session()
    start = time.perf_counter()
    tf.keras.models.load_model(sys.argv[1])
    times.append(time.perf_counter() - start)
print("load", min(times[:1]), sorted(times)[len(times) // 2])
"""
BY_US = """
import sys, time
import keras_policies
from keras_policies.legacy.readers import readers
keras_policies.load_model
times, reads = [], []
for _ in range(int(sys.argv[2])):
    start = time.perf_counter()
    keras_policies.load_model(sys.argv[1])
    times.append(time.perf_counter() - start)
    start = time.perf_counter()
    with readers.read(sys.argv[1]) as legacy:
        for weights in legacy.weights.values():
            for weight in weights:
                weight.read()
        for slot in legacy.optimizer.slots:
            slot.value.read()
    reads.append(time.perf_counter() - start)
print("load", times[0], sorted(times)[len(times) // 2])
print("read", reads[0], sorted(reads)[len(reads) // 2])
"""
IMPORT = "import keras"
LARGE_MODEL = """
import sys
import tensorflow as tf
model = tf.keras.Sequential(
    [tf.keras.Input((2048,))] + [tf.keras.layers.Dense(2048) for _ in range(64)]
)
model.save(sys.argv[1])
"""
DEEP_MODEL = """
import sys
import tensorflow as tf
layers = tf.keras.layers
x = inputs = tf.keras.Input((16, 16, 8))
for _ in range(250):  # blocks of four layers
    y = layers.Conv2D(8, 3, padding="same", use_bias=False)(x)
    x = layers.Add()([x, layers.Activation("relu")(layers.BatchNormalization()(y))])
outputs = layers.Dense(4)(layers.GlobalAveragePooling2D()(x))
model = tf.keras.Model(inputs, outputs)
model.compile("adam", "mse")
model.save(sys.argv[1])
"""
TINY_MODEL = """
import sys
import tensorflow as tf
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(3)])
model.compile("adam", "mse")
model.save(sys.argv[1])
"""
SIDES = "ours", "stock"
SIZES = {"tiny": TINY_MODEL, "deep": DEEP_MODEL, "large": LARGE_MODEL}
# Ours opens the legacy file, stock Keras the one that it was converted to; in turns.
BESIDE_STOCK = """
import gc, sys, time
import keras, keras_policies
def seconds(load, path):
    gc.collect()
    start = time.perf_counter(), time.process_time()
    load(path)
    return time.perf_counter() - start[0], time.process_time() - start[1]
legacy, new = sys.argv[1:3]
keras_policies.convert_model(legacy, new)
keras.models.load_model(new)
for _ in range(int(sys.argv[3])):
    print("ours", *seconds(keras_policies.load_model, legacy))
    print("stock", *seconds(keras.models.load_model, new))
"""
MEMORY = """
import resource, sys
import keras, numpy as np
keras.Variable(np.zeros(3, "float32"))
import keras_policies
keras_policies.load_model(sys.argv[2])  # a small one, for the imports and jax's buffers
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = keras_policies.load_model(sys.argv[1], compile=False)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
size = sum(weight.size * weight.itemsize for weight in model.get_weights())
largest = max(weight.size * weight.itemsize for weight in model.get_weights())
print("memory", (after - before) * 1024, size, largest)
"""


def run(python, code, *arguments):
    """Return `(seconds of the whole process, {word: numbers} that it printed)`."""
    seconds, lines = lines_of(python, code, *arguments)
    return seconds, {word: numbers for word, *numbers in lines}


def lines_of(python, code, *arguments):
    """Return `(seconds of the whole process, [[word, number, …], …])`."""
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}
    start = time.perf_counter()
    done = subprocess.run(
        [python, "-W", "ignore", "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=env,
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    words = [line.split() for line in done.stdout.splitlines() if line]
    return seconds, [[word, *map(float, numbers)] for word, *numbers in words]


def models_for_both(tf_python):
    """Return the SavedModels of tests/data that tf.keras 2.15 can load."""
    found = []
    for path in sorted(LEGACY.rglob("saved_model")):
        if path.parent.name in ("custom_layer", "subclassed", "no_metadata"):
            continue  # custom code, or no Keras model
        try:
            run(tf_python, BY_TF, path, 1)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1][:90]
            print(f"tf.keras 2.15 cannot load {path.relative_to(LEGACY)}: {reason}")
        else:
            found.append(path)
    return found


def measure(path, tf_python, rounds):
    """Return the medians of one model; the two sides run in turns."""
    samples = {
        name: [] for name in ("tf", "tf_load", "ours", "ours_load", "read", "bare")
    }
    for _ in range(rounds):
        seconds, printed = run(tf_python, BY_TF, path, 1)
        samples["tf"].append(seconds)
        samples["tf_load"].append(printed["load"][0])
        seconds, printed = run(sys.executable, BY_US, path, 1)
        samples["ours"].append(seconds)
        samples["ours_load"].append(printed["load"][0])
        samples["read"].append(printed["read"][0])
        samples["bare"].append(run(sys.executable, IMPORT)[0])
    return {name: statistics.median(values) for name, values in samples.items()}


def sizes(tf_python, rounds):
    """Print how long a tiny, a deep and a large model take, and the memory of that."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder, f"{name}.h5") for name in SIZES}
        for name, code in SIZES.items():
            run(tf_python, code, paths[name])
        for name, path in paths.items():
            beside_stock(name, path, rounds)
        printed = run(sys.executable, MEMORY, paths["large"], paths["tiny"])[1]
    peak, size, largest = printed["memory"]
    verdict = "PASS" if peak <= size + SPARE_BYTES else "FAIL"
    print(
        f"memory: peak {peak / 1e6:.0f} MB for {size / 1e6:.0f} MB of weights, largest "
        f"{largest / 1e6:.0f} MB; {SPARE_BYTES / 1e6:.0f} MB more are allowed {verdict}"
    )


def beside_stock(name, path, rounds):
    """Print how long opening a model takes, beside stock Keras with the new file."""
    new = path.with_suffix(".keras")
    _, lines = lines_of(sys.executable, BESIDE_STOCK, path, new, rounds)
    ours, stock = ([line[1:] for line in lines if line[0] == w] for w in SIDES)
    ratios = [a[1] / b[1] for a, b in zip(ours, stock, strict=True)]
    clock, used = (
        [statistics.median(line[part] for line in side) for side in (ours, stock)]
        for part in (0, 1)
    )
    ratio = statistics.median(ratios)
    verdict = "PASS" if ratio <= 1 else "FAIL"
    print(
        f"{name}: ours {clock[0]:.2f} s on the clock, {used[0]:.2f} s of processors; "
        f"stock Keras {clock[1]:.2f} s, {used[1]:.2f} s; ratio of processor time "
        f"{ratio:.2f} {verdict}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--tf", required=True, help="python with tensorflow-cpu==2.15.1"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--models", type=int, default=None, help="how many models, evenly chosen"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sizes-only", action="store_true", help="no small models")
    arguments = parser.parse_args()
    if arguments.sizes_only:
        return sizes(arguments.tf, arguments.rounds)
    paths = models_for_both(arguments.tf)
    paths = paths[:: -(-len(paths) // (arguments.models or len(paths)))]
    results = {
        str(path.relative_to(LEGACY)): measure(path, arguments.tf, arguments.rounds)
        for path in paths
    }
    medians = {
        name: statistics.median(result[name] for result in results.values())
        for name in next(iter(results.values()))
    }
    ratios = {
        "process": [result["tf"] / result["ours"] for result in results.values()],
        "load": [r["tf_load"] / r["ours_load"] for r in results.values()],
        "read": [result["tf_load"] / result["read"] for result in results.values()],
    }
    print(f"{len(paths)} models, medians in seconds:")
    for name, seconds in medians.items():
        print(f"  {name:10} {seconds:.4f}")
    for name, values in ratios.items():
        target = TARGETS.get(name)
        median = statistics.median(values)
        verdict = "" if target is None else ("PASS" if median >= target else "FAIL")
        spread = f"{min(values):.1f} to {max(values):.1f}"
        print(f"{name}: {median:.1f} times faster ({spread}) {verdict}")
    sizes(arguments.tf, arguments.rounds)
    if arguments.json:
        arguments.json.write_text(json.dumps({"models": results}, indent=1))


if __name__ == "__main__":
    main()
