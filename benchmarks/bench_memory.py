"""How much memory does training take at its peak, compared with stock Keras?

    KERAS_BACKEND=torch python -m benchmarks.bench_memory [--quick]

Measures the peak of the GPU's memory, or without one of the resident memory. Processes
train 8 dense layers of 1100 (9.7 million parameters, in mixed precision) for 8 steps,
in turns.
"""

import subprocess
import sys

import numpy as np

from benchmarks import results, timing

TARGET = 1.0
TRAIN = """
import sys
from benchmarks import devices, works
model, x, y = works.dense(width=1100)
model.compile(works.optimizer(sys.argv[1]), "mse")
for _ in range(8):
    model.train_on_batch(x, y)
print("peak", devices.peak_bytes())
"""


def _peak(variant):
    command = [sys.executable, "-c", TRAIN, variant]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(printed.split("peak")[1])


def main(arguments):
    variants = "none", "stock", "dynamic"
    rounds = range(1 if arguments.quick else 3)
    peaks = np.array([[_peak(variant) for variant in variants] for _ in rounds]).T
    by_name = dict(zip(variants, peaks, strict=True))
    for other, target in ("stock", TARGET), ("none", None):
        ratio = timing.ratio(by_name["dynamic"], by_name[other])
        yield results.Row("peak memory", f"dynamic / {other}", ratio, target)


if __name__ == "__main__":
    results.run(main, __doc__)
