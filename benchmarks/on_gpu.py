"""The benchmarks for a machine with a GPU, and tests there, in 9 minutes at most.

It installs nothing: backends that are missing, or see no GPU, are left out. Where none
sees one, the small models run on the CPU, to try the command; nothing is written then.
"""

import datetime
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

from tools import readme_table
from tools.all_backends import BACKENDS

SECONDS = 9 * 60
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
TESTS = "tests/scaling/test_optimizer.py", "tests/legacy/test_training.py"
# The tests compare with float32; a GPU would multiply in TF32.
PRECISE = {"NVIDIA_TF32_OVERRIDE": "0", "JAX_DEFAULT_MATMUL_PRECISION": "highest"}
FOLDER = Path(__file__).parent


def _run(command, backend, deadline, **environment):
    """Run a command until the deadline; return its exit status and what it printed."""
    environment = {**os.environ, **environment, "KERAS_BACKEND": backend}
    left = max(0.0, deadline - time.monotonic())
    try:
        done = subprocess.run(
            [sys.executable, *command],
            env={**environment, "TF_CPP_MIN_LOG_LEVEL": "3"},
            timeout=left,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    except subprocess.TimeoutExpired:
        return None, "stopped: the time was up."
    return done.returncode, done.stdout


def _gpu(backend, deadline):
    """Return the name of the GPU that a backend sees, "" if none; None: no backend."""
    asked = "from benchmarks import devices; print('gpu', devices.gpu() or '')"
    status, printed = _run(["-c", asked], backend, deadline)
    return printed.rpartition("gpu")[2].strip() if status == 0 else None


def _rows(question, backend, options, deadline):
    """Return the rows that a question had printed when it ended, or was stopped."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.json")
        command = ["-m", f"benchmarks.bench_{question}", *options, "--json", str(path)]
        status, printed = _run(command, backend, deadline)
        rows = json.loads(path.read_text()) if path.exists() else []
    for row in rows:
        print(" | ".join(filter(None, row)), flush=True)
    if status != 0:
        print(f"{backend} {question}: {printed[-2000:]}", flush=True)
    return [row[:5] for row in rows]


def _test(backend, deadline):
    """Return a row with the last line of the tests: how many passed, and failed."""
    if importlib.util.find_spec("pytest") is None:
        return [backend, "tests", "not run: pytest is not installed", "", ""]
    _, printed = _run(["-m", "pytest", "-q", *TESTS], backend, deadline, **PRECISE)
    print(printed[-4000:], flush=True)
    return [
        backend,
        " ".join(TESTS),
        printed.strip().splitlines()[-1].strip("= "),
        "",
        "",
    ]


def main():
    deadline = time.monotonic() + SECONDS
    gpus = {backend: _gpu(backend, deadline) for backend in BACKENDS}
    print({name: gpu or "no GPU" for name, gpu in gpus.items() if gpu is not None})
    on_gpu = [name for name, gpu in gpus.items() if gpu]
    backends = on_gpu or [name for name, gpu in gpus.items() if gpu is not None]
    rows = [
        row
        for question, options in QUESTIONS.items()
        for backend in backends
        for row in _rows(question, backend, options[not on_gpu], deadline)
    ]
    rows += [_test(backend, deadline) for backend in backends]
    if not on_gpu:
        print("No backend sees a GPU: this ran on the CPU, and nothing is written.")
        return
    about = (
        f"On one {gpus[on_gpu[0]]}, Python {platform.python_version()}, "
        f"Keras {metadata.version('keras')}, {datetime.date.today()}."
    )
    table = [about, "", *HEAD, *(f"| {' | '.join(row)} |" for row in rows)]
    readme_table.write(FOLDER / "README.md", "python -m benchmarks --gpu", table)


if __name__ == "__main__":
    main()
