"""Makes each backend start and compile quickly, at the cost of slower computations.

Most programs of the tests are called once, on small arrays. So XLA compiles without
optimizations, in a fifth of the time, and jax records no source locations. Processes of
pytest-xdist, which share the cores, compute in one thread each.

XLA ends the process at a flag that it does not know, so a process tries them first.
Processes that tests start inherit the variables.
"""

import os
import subprocess
import sys

FLAGS = ["--xla_backend_optimization_level=0"]
MORE = [
    "--xla_cpu_parallel_codegen_split_count=1",
    "--xla_cpu_use_fusion_emitters=false",
]


def are_known(flags):
    """Return whether jaxlib knows some flags."""
    command = [sys.executable, "-c", "import jax; jax.devices('cpu')"]
    flagged = os.environ | {"XLA_FLAGS": " ".join(flags)}
    return subprocess.run(command, env=flagged, capture_output=True).returncode == 0


given = os.environ.get("XLA_FLAGS", "")
if FLAGS[0] not in given:  # or pytest-xdist has started this process
    if os.environ["KERAS_BACKEND"] == "jax":
        known = MORE if are_known(MORE) else [f for f in MORE if are_known([f])]
        FLAGS += known
        os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"
    os.environ["XLA_FLAGS"] = " ".join([*FLAGS, given]).strip()
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"
