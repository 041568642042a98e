"""jax: eight CPU devices in one process, under the distributions of Keras."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import common
import keras
import numpy as np
from keras.distribution import DataParallel, DeviceMesh, LayoutMap, ModelParallel


def model_parallel():
    mesh = DeviceMesh((2, 4), ["batch", "model"], keras.distribution.list_devices())
    layouts = LayoutMap(mesh)
    layouts["hidden.*kernel"] = None, "model"
    layouts["hidden.*bias"] = ("model",)
    layouts["out.*kernel"] = "model", None
    return ModelParallel(layout_map=layouts, batch_dim_name="batch")


def copies(variable):
    """Return the values of a variable, each put together from the devices' shards."""
    values = {}
    for shard in variable.value.addressable_shards:
        empty = np.empty(variable.shape, variable.value.dtype)
        values.setdefault(shard.replica_id, empty)[shard.index] = shard.data
    return list(values.values())


def distributed(policy, rule, distribution, **options):
    """Return the record of a training by `Model.fit`."""
    keras.distribution.set_distribution(distribution())
    model = common.model_of(policy, rule, **options)
    record = common.trained(model, common.batches(policy, rule), copies)
    keras.distribution.set_distribution(None)
    return record


def eager(*case):
    return distributed(*case, DataParallel, run_eagerly=True)


# Way of training -> how, and the policies and rules to try.
WAYS = {
    "data": (lambda *case: distributed(*case, DataParallel), common.CASES),
    "model": (lambda *case: distributed(*case, model_parallel), common.CASES[::2]),
    "data, eager": (eager, common.CASES[:1]),
}

if __name__ == "__main__":
    common.compare(WAYS)
