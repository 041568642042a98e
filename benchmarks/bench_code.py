"""How long does writing a model's source code take, beside opening the model?

    KERAS_BACKEND=torch python -m benchmarks.bench_code --tf PYTHON [--write]

PYTHON is the Python of an environment with `tensorflow-cpu==2.15.1`, which writes three
large models of keras.applications, with random weights, in three formats; 2 GB of a
disk are needed. In one process for each model, files are opened and their source code
is written in turns. The first code of a process is a row of its own: a second process,
which runs the code, has to start.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.bench_sizes import run
from tools import readme_table

HEAD = (
    "| model | file | opened | source code | ratio | target | |",
    "|---|---|---|---|---|---|---|",
)
MODELS = "NASNetLarge", "EfficientNetV2L", "DenseNet201"
FORMATS = {"SavedModel": "", "`.keras`": ".keras", "H5": ".h5"}
SAVING = """
import sys
import tensorflow as tf
name, *paths = sys.argv[1:]
model = getattr(tf.keras.applications, name)(weights=None)
for path in paths:
    model.save(path)
"""
TIMES = """
import gc, sys, time
import keras, keras_policies
def seconds(function, *arguments):
    gc.collect()
    start = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - start
rounds, *paths = sys.argv[1:]
for _ in range(1 + int(rounds)):
    for path in paths:
        model, opened = seconds(keras_policies.load_model, path)
        _, written = seconds(keras_policies.to_source, model)
        print(opened, written, flush=True)
        del model
"""


def rows(tf_python, names, rounds):
    """Yield the rows of the table, each a list of texts."""
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            paths = [Path(place) / f"{name}{end}" for end in FORMATS.values()]
            run(tf_python, SAVING, name, *paths)
            pairs = run(sys.executable, TIMES, rounds, *paths)
        yield _row(name, "SavedModel, the first in a process", pairs[:1])
        later = pairs[len(FORMATS) :]
        for at, kind in enumerate(FORMATS):
            yield _row(name, kind, later[at :: len(FORMATS)])


def _row(name, kind, pairs):
    opened, written = map(statistics.median, zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs)
    verdict = "PASS" if round(ratio, 2) <= 1 else "FAIL"
    seconds = f"{opened:.1f} s", f"{written:.1f} s"
    return [name, kind, *seconds, f"{ratio:.2f}", "1.00", verdict]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tf", required=True, help="python with tensorflow-cpu==2.15.1"
    )
    parser.add_argument("--models", nargs="*", default=MODELS, choices=MODELS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="the table of results.md")
    arguments = parser.parse_args()
    found = rows(arguments.tf, arguments.models, arguments.rounds)
    command = "python -m benchmarks.bench_code"
    readme_table.report(command, HEAD, found, arguments.write)


if __name__ == "__main__":
    main()
