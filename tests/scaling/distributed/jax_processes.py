"""jax: two processes, each with half of the devices and half of the batch.

Run as `jax_processes.py RANK PORT`.
"""

import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import common
import jax
import keras
import numpy as np

RANK, PORT = int(sys.argv[1]), sys.argv[2]
PROCESSES = 2
SHARE = slice(*(common.BATCH // PROCESSES * i for i in (RANK, RANK + 1)))


def copies(variable):
    """Return the values of a variable on the devices of this process."""
    return [shard.data for shard in variable.value.addressable_shards]


def train(model, x, y):
    """Train one step as Keras 3.8 can: its `fit` takes no arrays here."""
    model.train_on_batch(x, y, np.ones(len(x), "float32"))


def data_parallel(policy, rule):
    """Return the record of a training."""
    parallel = keras.distribution.DataParallel(auto_shard_dataset=False)
    keras.distribution.set_distribution(parallel)
    model = common.model_of(policy, rule)
    x, y = common.batches(policy, rule)
    record = common.trained(model, (x[:, SHARE], y[:, SHARE]), copies, train)
    keras.distribution.set_distribution(None)
    return record


if __name__ == "__main__":
    # The default of newer jax.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    keras.distribution.initialize(f"localhost:{PORT}", PROCESSES, RANK)
    common.compare({"data": (data_parallel, common.CASES[:1])})
