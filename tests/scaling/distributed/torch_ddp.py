"""torch: two processes under DistributedDataParallel, each with half of the batch.

Run as `torch_ddp.py RANK PORT`.
"""

import sys

import common
import keras
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

RANK, PORT = int(sys.argv[1]), sys.argv[2]
PROCESSES = 2
SHARE = slice(*(common.BATCH // PROCESSES * i for i in (RANK, RANK + 1)))


def share_of(policy, rule):
    x, y = common.batches(policy, rule)
    return x[:, SHARE], y[:, SHARE]


def compiled(policy, rule):
    """Train by `Model.fit`, with gradients that are averaged as they come."""
    model = common.model_of(policy, rule)
    for variable in model.trainable_variables:
        variable.value.register_post_accumulate_grad_hook(average)
    return common.trained(model, share_of(policy, rule), common.one_copy)


def average(parameter):
    dist.all_reduce(parameter.grad)
    parameter.grad /= PROCESSES


def loop(policy, rule, micro_batches=1, **options):
    """Train by a loop of one's own, on micro-batches of which only the last syncs."""
    model = common.model_of(policy, rule)
    ddp = DistributedDataParallel(model, **options)
    loss_of = keras.losses.MeanSquaredError()

    def backward(x, y):
        loss = loss_of(torch.tensor(y), ddp(torch.tensor(x)))
        model.optimizer.scale_loss(loss / micro_batches).backward()

    def step(model, x, y):
        ddp.zero_grad()
        size = len(x) // micro_batches
        # The row that overflows is in the first of them.
        parts = [slice(len(x) - size * (i + 1), len(x) - size * i) for i in range(2)]
        for part in parts[: micro_batches - 1]:
            with ddp.no_sync():
                backward(x[part], y[part])
        last = parts[micro_batches - 1]
        backward(x[last], y[last])
        variables = model.trainable_variables
        with torch.no_grad():
            model.optimizer.apply([v.value.grad for v in variables], variables)

    return common.trained(model, share_of(policy, rule), common.one_copy, step)


WAYS = {
    "Model.fit": compiled,
    "loop": loop,
    "bucket views": lambda *case: loop(*case, gradient_as_bucket_view=True),
    "no_sync": lambda *case: loop(*case, micro_batches=2),
}

if __name__ == "__main__":
    dist.init_process_group(
        "gloo", f"tcp://localhost:{PORT}", rank=RANK, world_size=PROCESSES
    )
    common.compare({name: (way, common.CASES) for name, way in WAYS.items()})
    dist.destroy_process_group()
