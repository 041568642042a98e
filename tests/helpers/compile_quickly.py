"""Makes each backend start and compile quickly, at the cost of slower computations.

Most programs of the tests are called once, on small arrays. So XLA compiles without
optimizations, in a fifth of the time, and jax records no source locations. Processes of
pytest-xdist, which share the cores, compute in one thread each.

XLA ends the process at a flag that it does not know. Processes that tests start inherit
the variables.
"""

import importlib.metadata
import os

FLAGS = ["--xla_backend_optimization_level=0"]

if os.environ["KERAS_BACKEND"] == "jax":
    FLAGS.append("--xla_cpu_parallel_codegen_split_count=1")
    release = [*map(int, importlib.metadata.version("jaxlib").split(".")[:2])]
    if release >= [0, 6]:
        FLAGS.append("--xla_cpu_use_fusion_emitters=false")
    os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"

os.environ["XLA_FLAGS"] = " ".join([*FLAGS, os.environ.get("XLA_FLAGS", "")]).strip()
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"
