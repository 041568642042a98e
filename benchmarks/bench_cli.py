"""How long does somebody wait for a command?

    python benchmarks/bench_cli.py

Whole processes, in turns and in random order; medians of their time on the clock, and
of the processor time that they used, which other programs on the machine change less
(without that of the processes that convert when there are several). The first run of
each command fills caches, and is not counted.

A hundred models are converted by one command. For one process per file, the time of a
process is multiplied by a hundred.
"""

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
SMALL = ROOT / "tests/data/legacy/corpus/2.4.4/func_conv_fixed"
START = "--version", "--help", "inspect SavedModel", "inspect H5"
START_SECONDS = 0.3  # on two quiet cores
MANY, TIMES_FASTER = 100, 10


def commands(folder):
    """Return `{what: arguments}`; models are written below `folder`."""
    saved_model, h5 = str(SMALL / "saved_model"), str(SMALL / "model.h5")
    models, new = folder / "models", folder / "new"
    models.mkdir()
    for number in range(MANY):
        shutil.copy(h5, models / f"{number}.h5")
    many = ["--output-dir", str(new / "many"), "--overwrite"]
    return {
        "--version": ["--version"],
        "--help": ["--help"],
        "inspect SavedModel": ["inspect", saved_model],
        "inspect H5": ["inspect", h5],
        f"inspect {MANY} H5": ["inspect", str(models)],
        "convert 1": ["convert", h5, str(folder / "new.keras"), "--overwrite"],
        f"convert {MANY}": ["convert", str(models), *many],
        f"convert {MANY}, --jobs 1": ["convert", str(models), *many, "--jobs", "1"],
    }


def seconds(arguments):
    """Return `(on the clock, of processors)` for a process and those it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "keras_policies", *arguments],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    clock = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return clock, used


def measure(found, rounds):
    """Return `{what: (median on the clock, median of processors)}`."""
    samples = {what: [] for what in found}
    for number in range(rounds + 1):
        for what in random.sample([*found], len(found)):
            taken = seconds(found[what])
            if number:
                samples[what].append(taken)
    return {
        what: tuple(map(statistics.median, zip(*taken, strict=True)))
        for what, taken in samples.items()
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="a file to write the figures to")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        medians = measure(commands(Path(folder)), arguments.rounds)
    for what, (clock, used) in medians.items():
        verdict = ""
        if what in START:
            verdict = "PASS" if clock <= START_SECONDS else "FAIL"
        print(f"{what:22} {clock:6.2f} s on the clock, {used:6.2f} s used {verdict}")
    ratio = MANY * medians["convert 1"][0] / medians[f"convert {MANY}"][0]
    verdict = "PASS" if ratio >= TIMES_FASTER else "FAIL"
    print(f"one command for {MANY} models: {ratio:.0f} times faster {verdict}")
    if arguments.json:
        arguments.json.write_text(json.dumps(medians, indent=1))


if __name__ == "__main__":
    main()
