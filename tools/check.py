"""Check the package on one backend: lint, types, and the tests that are not slow.

    python tools/check.py

This is README's second command. The backend is torch, which does not compile, unless
`KERAS_BACKEND` names another. `tools/all_backends.py` also runs the other tests.
"""

import concurrent.futures
import os
import subprocess
import sys

# The check of a user who is strict about their own code: without our settings.
STRICT = (
    "--strict",
    "--config-file=",
    "--cache-dir=.mypy_cache/strict",  # two of mypy at once must not share one
    "--ignore-missing-imports",
    "--follow-imports=silent",
)
LINT = {
    "public types": ("mypy", *STRICT, "tests/package/typed_use.py"),
    "mypy": ("mypy",),
    "ruff check": ("ruff", "check", "."),
    "ruff format": ("ruff", "format", "--check", "."),
}


def run(*command, **env):
    """Run a module of Python; return whether it ended well."""
    print("$", *(f"{k}={v}" for k, v in env.items()), *command, flush=True)
    # Tests start a hundred processes, which share the modules that Python compiled.
    # On Windows, they read and write files in the code page unless told otherwise.
    shared = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONUTF8": "1"}
    done = subprocess.run([sys.executable, "-m", *command], env=shared | env)
    return done.returncode == 0


def tests(backend, *options, **env):
    """Run the tests on a backend, on all cores; return whether they passed."""
    # Neighbours run in one process, so that what a module sets up is set up once.
    on_all_cores = "-n", "auto", "--dist", "worksteal"
    return run("pytest", "-q", *on_all_cores, *options, KERAS_BACKEND=backend, **env)


def check():
    """Return `{what was checked: whether it passed}`."""
    backend = os.environ.get("KERAS_BACKEND", "torch")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        passed = pool.map(lambda command: run(*command), LINT.values())
        results = dict(zip(LINT, passed, strict=True))
    return results | {backend: tests(backend, "-m", "not slow")}


def report(results):
    """Print `{what was checked: whether it passed}`; exit with 1 if one did not."""
    for name, passed in results.items():
        print(f"{name:12} {'PASS' if passed else 'FAIL'}")
    sys.exit(not all(results.values()))


if __name__ == "__main__":
    report(check())
