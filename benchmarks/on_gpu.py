"""The benchmarks for a machine with a GPU, and tests there, in 9 minutes at most.

It installs nothing: backends that are missing, or see no GPU, are left out. Where none
sees one, the small models run on the CPU, to try the command; then results.md stays as
it is. Each part has a share of the time. The table is written after each part, and
names what was stopped or did not run.
"""

import datetime
import functools
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools import readme_table
from tools.all_backends import BACKENDS

SECONDS = 9 * 60 - 20  # the rest is for starting and stopping
HEAD = (
    "| backend | what | ratio or number | median | quartiles |",
    "|---|---|---|---|---|",
)
# Question -> its options on a GPU, and on a CPU.
QUESTIONS = {
    "step": (["--works", "ABFG", "--rounds", "20"], ["--quick"]),
    "waits": ([], []),
    "memory": (["--quick"], ["--quick"]),
}
LONG = {"step": 4}  # this many times the time of another part
TESTS = "tests/scaling/test_optimizer.py", "tests/legacy/test_training.py"
# The tests compare with float32; a GPU would multiply in TF32.
PRECISE = {"NVIDIA_TF32_OVERRIDE": "0", "JAX_DEFAULT_MATMUL_PRECISION": "highest"}


def _run(command, backend, seconds, **environment):
    """Return the exit status of a command, None if it was stopped, and what it printed.

    All processes that the command started are stopped with it.
    """
    environment = {**os.environ, **environment, "KERAS_BACKEND": backend}
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(
            [sys.executable, *command],
            env={**environment, "TF_CPP_MIN_LOG_LEVEL": "3"},
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = None
        printed.seek(0)
        return status, printed.read()


def _gpu(backend, seconds):
    """Return the name of the GPU that a backend sees, "" if none; None: no backend."""
    asked = "from benchmarks import devices; print('gpu', devices.gpu() or '')"
    status, printed = _run(["-c", asked], backend, seconds)
    return printed.rpartition("gpu")[2].strip() if status == 0 else None


def _note(backend, what, status, printed):
    """Return the row of a part that did not end well."""
    if status is None:
        return [backend, what, "stopped, its time was up", "", ""]
    print(printed[-2000:], flush=True)
    return [backend, what, f"failed with exit status {status}", "", ""]


def _rows(backend, question, options, seconds):
    """Return the rows that a question had printed when it ended, or was stopped."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.json")
        command = ["-m", f"benchmarks.bench_{question}", *options, "--json", str(path)]
        status, printed = _run(command, backend, seconds)
        rows = json.loads(path.read_text()) if path.exists() else []
    rows = [row[:5] for row in rows]
    return rows if status == 0 else [*rows, _note(backend, question, status, printed)]


def _test(backend, path, seconds):
    """Return a row with the last line of tests: how many passed, and failed."""
    if importlib.util.find_spec("pytest") is None:
        return [[backend, path, "not run: pytest is not installed", "", ""]]
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", path]
    status, printed = _run(command, backend, seconds, **PRECISE)
    if status not in (0, 1):
        return [_note(backend, path, status, printed)]
    if status == 1:
        print(printed[-4000:], flush=True)
    return [[backend, path, printed.strip().splitlines()[-1].strip("= "), "", ""]]


def _parts(backends, on_gpu):
    """Return `[(backend, what, function of the seconds it may take)]`."""
    asked = [
        (name, question, functools.partial(_rows, name, question, options[not on_gpu]))
        for question, options in QUESTIONS.items()
        for name in backends
    ]
    tests = [
        (name, path, functools.partial(_test, name, path))
        for path in TESTS
        for name in backends
    ]
    return asked + tests


def _write(gpus, rows, path):
    """Write the table to a file, or to results.md if a GPU was there."""
    on_gpu = [gpu for gpu in gpus.values() if gpu]
    device = f"one {on_gpu[0]}" if on_gpu else "a CPU"
    about = f"On {device}, {readme_table.machine()}, {datetime.date.today()}."
    lines = [about, "", *HEAD, *(f"| {' | '.join(row)} |" for row in rows)]
    if path:
        path.write_text("\n".join(lines) + "\n")
    elif on_gpu:
        command = "python -m benchmarks --gpu"
        readme_table.write(readme_table.BENCHMARKS, command, lines)


def main(path=None):
    """Run each part, and write the table after each; `path` is a file for it."""
    deadline = time.monotonic() + SECONDS
    gpus = {backend: _gpu(backend, SECONDS / 9) for backend in BACKENDS}
    on_gpu = [name for name, gpu in gpus.items() if gpu]
    backends = on_gpu or [name for name, gpu in gpus.items() if gpu is not None]
    seen = {None: "not run: not installed", "": "not run: it sees no GPU"}
    rows = [
        [name, "everything", seen[gpu], "", ""]
        for name, gpu in gpus.items()
        if name not in backends
    ]
    parts = _parts(backends, on_gpu)
    for number, (backend, what, run) in enumerate(parts):
        weights = [LONG.get(what, 1) for _, what, _ in parts[number:]]
        # Twice its share: many parts end early.
        share = 2 * weights[0] / (weights[0] + sum(weights))
        found = run(share * (deadline - time.monotonic())) or [
            [backend, what, "not run: not for this backend, or needs a GPU", "", ""]
        ]
        for row in found:
            print(" | ".join(filter(None, row)), flush=True)
        rows += found
        _write(gpus, rows, path)
    if not on_gpu:
        print("No backend sees a GPU: this ran on the CPU.")
