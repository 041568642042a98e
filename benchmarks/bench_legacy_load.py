"""How long does opening a legacy model take, compared with tf.keras 2.15?

    KERAS_BACKEND=jax python benchmarks/bench_legacy_load.py --tf PYTHON_OF_TF_2_15

PYTHON_OF_TF_2_15 is the Python of an environment with `tensorflow-cpu==2.15.1`. The
SavedModels are the ones in tests/data that tf.keras 2.15 can load too. Processes of
both sides run in turns; a ratio is the median, over the models, of the ratio of two
medians.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
LEGACY = ROOT / "tests" / "data" / "legacy"
TARGETS = {"process": 3.0, "read": 10.0}

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


def run(python, code, *arguments):
    """Return `(seconds of the whole process, {word: numbers} that it printed)`."""
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
    lines = [line.split() for line in done.stdout.splitlines() if line]
    return seconds, {word: [*map(float, numbers)] for word, *numbers in lines}


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
    arguments = parser.parse_args()
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
    if arguments.json:
        arguments.json.write_text(json.dumps({"models": results}, indent=1))


if __name__ == "__main__":
    main()
