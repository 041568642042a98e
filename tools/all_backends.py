"""Check everything: lint, types, and all tests on each backend.

    python tools/all_backends.py [--rest]

First it does what `tools/check.py` does; then it runs the slow tests on torch, and all
tests on the other backends. `--rest` is for those who have just run `tools/check.py`.
"""

import os
import pathlib
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parent))  # imported as tools.all_backends
import check

BACKENDS = "jax", "tensorflow", "torch"
CACHE = "JAX_COMPILATION_CACHE_DIR"  # one that is set is kept, and used by the next run


def rest():
    """Run the tests that `tools/check.py` does not run on torch."""
    with tempfile.TemporaryDirectory() as folder:
        # The test processes share what jax has compiled. Not with every jax: 0.4.38,
        # which .ci/run also tests, then computed wrong steps.
        shared = {
            CACHE: os.environ.get(CACHE, folder),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        return {
            "slow, torch": check.tests("torch", "-m", "slow"),
            "jax": check.tests("jax", **shared),
            "tensorflow": check.tests("tensorflow"),
        }


def main():
    os.environ.pop("KERAS_BACKEND", None)
    results = {} if "--rest" in sys.argv else check.check()
    check.report(results | rest())


if __name__ == "__main__":
    main()
