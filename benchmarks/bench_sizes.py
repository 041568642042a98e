"""How do time and memory of opening a legacy model grow with its size?

    KERAS_BACKEND=jax python -m benchmarks.bench_sizes --tf PYTHON [--write]

PYTHON is the Python of an environment with `tensorflow-cpu==2.15.1`, which writes a
tiny, a deep (1,000 layers) and a large model (1 GB); 5 GB of a disk are needed.

The legacy H5 file is opened here, in turns with the file that it was converted to, by
stock Keras. Then the large model is opened on each backend, and the peak of memory is
compared with the size of its weights.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tools import readme_table
from tools.all_backends import BACKENDS

ROOT = Path(__file__).parent.parent
SPARE = 50e6  # bytes beside the weights
HEAD = (
    "| model | what | here | stock Keras | ratio | target | |",
    "|---|---|---|---|---|---|---|",
)
BEGINNING = """
import sys
import tensorflow as tf
layers = tf.keras.layers
"""
TINY = """
model = tf.keras.Sequential([tf.keras.Input((4,)), layers.Dense(3)])
model.compile("adam", "mse")
"""
DEEP = """
x = inputs = tf.keras.Input((16, 16, 8))
for _ in range(250):  # blocks of four layers
    y = layers.Conv2D(8, 3, padding="same", use_bias=False)(x)
    x = layers.Add()([x, layers.Activation("relu")(layers.BatchNormalization()(y))])
model = tf.keras.Model(inputs, layers.Dense(4)(layers.GlobalAveragePooling2D()(x)))
model.compile("adam", "mse")
"""
LARGE = """
kernels = [layers.Dense(2048) for _ in range(64)]
model = tf.keras.Sequential([tf.keras.Input((2048,)), *kernels])
"""
SAVING = """
for path in sys.argv[1:]:
    model.save(path)
"""
MODELS = {
    "tiny: 1 layer": (TINY, "tiny"),
    "deep: 1,003 layers": (DEEP, "deep"),
    "large: 1,074 MB of weights, the largest 17 MB": (LARGE, "large"),
}
FORMATS = {"H5": ".h5", "SavedModel": ""}
TIME = """
import gc, sys, time
import keras, keras_policies
def seconds(load, path):
    gc.collect()
    start = time.process_time()
    load(path)
    return time.process_time() - start
legacy, new = sys.argv[1:3]
keras_policies.convert_model(legacy, new)
keras.models.load_model(new)
for _ in range(int(sys.argv[3])):
    print(seconds(keras_policies.load_model, legacy), end=" ")
    print(seconds(keras.models.load_model, new))
"""
# A tiny file first, for the imports and the buffers of the backend.
MEMORY = """
import resource, sys
import keras, keras_policies
loads = {"ours": keras_policies.load_model, "stock": keras.models.load_model}
load = loads[sys.argv[1]]
load(sys.argv[2])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = load(sys.argv[3], compile=False)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * 1024, 4 * model.count_params())
"""


def run(python, code, *arguments, **environment):
    """Return the numbers that a program printed, a list for each line."""
    done = subprocess.run(
        [python, "-W", "ignore", "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "PYTHONPATH": str(ROOT),
            **environment,
        },
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return [[*map(float, line.split())] for line in done.stdout.splitlines()]


def times(what, path, rounds):
    """Return the row of a model: the processor time of opening it."""
    pairs = run(sys.executable, TIME, path, path.with_suffix(".keras"), rounds)
    ours, stock = map(statistics.median, zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    verdict = "PASS" if round(ratio, 2) <= 1 else "FAIL"
    seconds = f"{ours:.2f} s", f"{stock:.2f} s"
    return [what, "processor time", *seconds, f"{ratio:.2f}", "1.00", verdict]


def memory(side, backend, tiny, large):
    """Return the bytes beside the weights at the peak of opening a model."""
    printed = run(sys.executable, MEMORY, side, tiny, large, KERAS_BACKEND=backend)
    peak, weights = printed[-1]
    return peak - weights


def peaks(what, backend, folder):
    """Yield a row for each format: the peak of memory, beside the weights."""

    def beside_weights(side, end):
        both = [folder / f"{name}{end}" for name in ("tiny", "large")]
        return memory(side, backend, *both)

    stock = beside_weights("stock", ".keras")
    for kind, end in FORMATS.items():
        ours = beside_weights("ours", end)
        question = f"memory beside the weights: {kind}, {backend}"
        found = f"{ours / 1e6:.0f} MB", f"{stock / 1e6:.0f} MB"
        verdict = "PASS" if ours <= SPARE else "FAIL"
        yield [what, question, *found, "", f"{SPARE / 1e6:.0f} MB", verdict]


def rows(tf_python, rounds):
    """Yield the rows of the table, each a list of texts."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for what, (code, name) in MODELS.items():
            ends = [".h5"] if name == "deep" else FORMATS.values()
            paths = [folder / f"{name}{end}" for end in ends]
            run(tf_python, BEGINNING + code + SAVING, *paths)
            yield times(what, folder / f"{name}.h5", rounds)
        for backend in BACKENDS:
            yield from peaks(what, backend, folder)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tf", required=True, help="python with tensorflow-cpu==2.15.1"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="the table of results.md")
    arguments = parser.parse_args()
    found = rows(arguments.tf, arguments.rounds)
    command = "python -m benchmarks.bench_sizes"
    readme_table.report(command, HEAD, found, arguments.write)


if __name__ == "__main__":
    main()
