"""Check everything: lint, types, and the tests on each backend.

    python tools/all_backends.py [--rest] [--weekly]

First it runs what `tools/check.py` runs. Then it runs the slow tests on torch, and, on
the other backends, the tests that are not slow or are about each backend. `--rest`
skips `tools/check.py`, if you have just run it. `--weekly` runs only the remaining
tests: on torch, those that are marked so; on the other backends, the slow ones and
those that were not their turn.
"""

import os
import pathlib
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parent))  # imported as tools.all_backends
import check

BACKENDS = "jax", "tensorflow", "torch"
WEEKLY = "slow(weekly=True)"
ON_EACH = "not slow or each_backend"
CACHE = "JAX_COMPILATION_CACHE_DIR"  # one that is set is kept, and used by the next run


def rest():
    """Run the tests that `tools/check.py` does not run."""
    slow = {"slow, torch": check.tests("torch", "-m", f"slow and not {WEEKLY}")}
    return slow | others(ON_EACH)


def others(chosen):
    """Run the tests that a marker expression chooses on jax and TensorFlow."""
    with tempfile.TemporaryDirectory() as folder:
        # The test processes share what jax has compiled. Not with every jax: 0.4.38,
        # which .ci/run also tests, then computed wrong steps.
        shared = {
            CACHE: os.environ.get(CACHE, folder),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        return {
            "jax": check.tests("jax", "-m", chosen, **shared),
            "tensorflow": check.tests("tensorflow", "-m", chosen),
        }


def main():
    os.environ.pop("KERAS_BACKEND", None)
    if "--weekly" in sys.argv:
        weekly = {"weekly, torch": check.tests("torch", "-m", WEEKLY)}
        check.report(weekly | others(f"not ({ON_EACH})"))
    results = {} if "--rest" in sys.argv else check.check()
    check.report(results | rest())


if __name__ == "__main__":
    main()
