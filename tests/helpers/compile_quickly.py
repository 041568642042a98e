"""Has XLA compile in a fifth of the time, without what makes compiled programs faster.

Most programs of the tests are called once. XLA ends the process at a flag that it does
not know. Processes that tests start inherit the variable.
"""

import importlib.metadata
import os

FLAGS = ["--xla_backend_optimization_level=0"]

if os.environ["KERAS_BACKEND"] == "jax":
    FLAGS.append("--xla_cpu_parallel_codegen_split_count=1")
    release = [*map(int, importlib.metadata.version("jaxlib").split(".")[:2])]
    if release >= [0, 6]:
        FLAGS.append("--xla_cpu_use_fusion_emitters=false")

os.environ["XLA_FLAGS"] = " ".join([*FLAGS, os.environ.get("XLA_FLAGS", "")]).strip()
