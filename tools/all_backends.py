"""Check everything: lint, types, and the tests on each backend."""

import os
import subprocess
import sys
import tempfile

BACKENDS = "jax", "tensorflow", "torch"
# The check of a user who is strict about their own code: without our settings.
STRICT = (
    "--strict",
    "--config-file=",
    "--ignore-missing-imports",
    "--follow-imports=silent",
)


CACHE = "JAX_COMPILATION_CACHE_DIR"  # one that is set is kept, and used by the next run
# Neighbours run in one process, so that what a module sets up is set up once.
PYTEST = "pytest", "-q", "-n", "auto", "--dist", "worksteal"


def run(*command, **env):
    print("$", *(f"{k}={v}" for k, v in env.items()), *command, flush=True)
    done = subprocess.run([sys.executable, "-m", *command], env={**os.environ, **env})
    return done.returncode == 0


def main():
    results = {
        "ruff check": run("ruff", "check", "."),
        "ruff format": run("ruff", "format", "--check", "."),
        "mypy": run("mypy"),
        "public types": run("mypy", *STRICT, "tests/package/typed_use.py"),
    }
    with tempfile.TemporaryDirectory() as folder:
        # The test processes share what jax has compiled. Not with every jax: 0.4.38,
        # which .ci/run also tests, then computed wrong steps.
        shared = {
            CACHE: os.environ.get(CACHE, folder),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        for backend in BACKENDS:
            results[backend] = run(*PYTEST, KERAS_BACKEND=backend, **shared)
    for name, passed in results.items():
        print(f"{name:12} {'PASS' if passed else 'FAIL'}")
    sys.exit(not all(results.values()))


if __name__ == "__main__":
    main()
