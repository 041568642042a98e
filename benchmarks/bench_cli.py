"""How long does somebody wait for a command?

    KERAS_BACKEND=jax python -m benchmarks.bench_cli [--write]

Whole processes, in turns and in random order; medians of their time on the clock, and
of the processor time that they used, which other programs on the machine change less.
The first run of each command fills caches, and is not counted. No round begins when 6
minutes have passed.

A hundred models are converted by one command. For one process per file, the time of a
process is multiplied by a hundred.
"""

import argparse
import compileall
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

from tools import readme_table

ROOT = Path(__file__).parent.parent
SMALL = ROOT / "tests/data/legacy/corpus/2.4.4/func_conv_fixed"
MANY, TIMES_FASTER = 100, 10
START_SECONDS = 0.3  # on two quiet cores
ONE = "`convert`, one H5 file"
JOBS = f"`convert --jobs {{}}`, a folder of {MANY} H5 files"
START = "`--version`", "`--help`", "`inspect`, a SavedModel", "`inspect`, an H5 file"
LAST_ROUND = 6 * 60  # seconds
HEAD = (
    "| command | on the clock | processor time | target | |",
    "|---|---|---|---|---|",
)


def commands(folder):
    """Return `{what: arguments}`; models are written below `folder`."""
    saved_model, h5 = str(SMALL / "saved_model"), str(SMALL / "model.h5")
    models, new = folder / "models", str(folder / "new")
    models.mkdir()
    for number in range(MANY):
        shutil.copy(h5, models / f"{number}.h5")
    many = ["convert", str(models), "--output-dir", new, "--overwrite", "--jobs"]
    starts = ["--version"], ["--help"], ["inspect", saved_model], ["inspect", h5]
    return {
        **dict(zip(START, starts, strict=True)),
        f"`inspect`, a folder of {MANY} H5 files": ["inspect", str(models)],
        ONE: ["convert", h5, str(folder / "new.keras"), "--overwrite"],
        **{JOBS.format(jobs): [*many, jobs] for jobs in "12"},
    }


def installed(folder):
    """Return a new folder with the package, compiled as pip does."""
    copy = folder / "installed"
    shutil.copytree(ROOT / "keras_policies", copy / "keras_policies")
    shutil.copy(ROOT / "keras_policies_cli.py", copy)
    compileall.compile_dir(copy, quiet=1)
    return copy


def seconds(arguments, package):
    """Return `(on the clock, of processors)` for a process and those it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "keras_policies_cli", *arguments],
        check=True,
        capture_output=True,
        cwd=package,
        env={**os.environ, "PYTHONPATH": str(package)},
    )
    clock = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return clock, used


def measure(found, rounds, package):
    """Return `{what: (median on the clock, median of processors)}`."""
    samples = {what: [] for what in found}
    last = time.monotonic() + LAST_ROUND
    for number in range(rounds + 1):
        if number > 1 and time.monotonic() > last:
            break
        for what in random.sample([*found], len(found)):
            taken = seconds(found[what], package)
            if number:
                samples[what].append(taken)
    return {
        what: tuple(map(statistics.median, zip(*taken, strict=True)))
        for what, taken in samples.items()
    }


def rows(medians):
    """Yield the rows of the table, each a list of texts."""
    for what, (clock, used) in medians.items():
        target = ["", ""]
        if what in START:
            verdict = "PASS" if clock <= START_SECONDS else "FAIL"
            target = [f"{START_SECONDS} s on the clock", verdict]
        # The system does not add the time of processes that a server has forked.
        shown = "" if what == JOBS.format(2) else f"{used:.2f} s"
        yield [what, f"{clock:.2f} s", shown, *target]
    for jobs in "12":
        times = MANY * medians[ONE][0] / medians[JOBS.format(jobs)][0]
        yield [
            f"`--jobs {jobs}` beside {MANY} processes of one file each",
            f"{times:.0f} times faster",
            "",
            f"{TIMES_FASTER} times",
            "PASS" if times >= TIMES_FASTER else "FAIL",
        ]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="the table of results.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = commands(Path(folder))
        medians = measure(found, arguments.rounds, installed(Path(folder)))
    readme_table.report(
        "python -m benchmarks.bench_cli", HEAD, rows(medians), arguments.write
    )


if __name__ == "__main__":
    main()
