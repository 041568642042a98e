"""Functions directly under `tf` that put rows in another order."""

import numpy as np

from keras_policies.legacy.ops.array_indexing import gather
from keras_policies.legacy.ops.kinds import Value, Values
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.evaluator import is_tensor, ops


@op(
    "reverse_sequence",
    v1=True,
    ReverseSequence=Raw("input seq_lengths", "seq_axis=seq_dim batch_axis=batch_dim"),
    renamed={"seq_dim": "seq_axis", "batch_dim": "batch_axis"},
)
def reverse_sequence(
    input: Value, seq_lengths: Value, seq_axis: int, batch_axis: int = 0
) -> Value:
    """Reverse the first items of each sequence, as many as its length says."""
    axes = batch_axis, seq_axis
    rows = ops.moveaxis(input, axes, (0, 1))
    numbers = computed.arange(0, computed.shape(rows)[1])
    ends = ops.expand_dims(ops.cast(seq_lengths, "int32"), -1)
    backwards = ops.subtract(ops.subtract(ends, 1), numbers)
    places = ops.where(ops.less(numbers, ends), backwards, numbers)
    return ops.moveaxis(gather(rows, places, batch_dims=1), (0, 1), axes)


@op(
    "dynamic_partition",
    v1=True,
    DynamicPartition=Raw("data partitions", "num_partitions"),
)
def dynamic_partition(
    data: Value, partitions: Value, num_partitions: int
) -> tuple[Value, ...]:
    """Return the items of each partition; the partitions have to be known."""
    if is_tensor(partitions):
        raise ValueError("partitions: a tensor; the sizes depend on the data")
    rest = computed.shape(data)[computed.rank(partitions) :]
    if computed.rank(partitions) != 1:
        data = computed.reshape(data, [-1, *rest])
    chosen = (np.flatnonzero(partitions == i) for i in range(num_partitions))
    return tuple(ops.take(data, each, axis=0) for each in chosen)


@op("dynamic_stitch", v1=True)
def dynamic_stitch(indices: Values, data: Values) -> Value:
    """Return rows at their positions, which have to be known; the last one counts."""
    if any(map(is_tensor, indices)):
        raise ValueError("indices: a tensor; the positions depend on the data")
    rows = [
        computed.reshape(one, [-1, *computed.shape(one)[computed.rank(at) :]])
        for at, one in zip(indices, data, strict=True)
    ]
    at = np.concatenate([np.ravel(each) for each in indices])
    row_of = np.full(max(at) + 1, -1, "int32")
    row_of[at] = np.arange(len(at))
    if -1 in row_of:
        raise ValueError(f"indices: none is {row_of.tolist().index(-1)}")
    return ops.take(ops.concatenate(rows, axis=0), row_of, axis=0)


STITCH = Raw("*values")


@op(DynamicStitch=STITCH, ParallelDynamicStitch=STITCH)
def dynamic_stitch_node(values: Values) -> Value:
    """Do the same; first come the positions, then the rows."""
    half = len(values) // 2
    return dynamic_stitch(values[:half], values[half:])
