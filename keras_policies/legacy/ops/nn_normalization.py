"""`tf.nn`: normalization of batches by the fused kernel of graphs, and of channels."""

from keras_policies.legacy.ops.kinds import Layout, Value
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.evaluator import dtype_of, ops

FUSED = Raw(
    "x scale offset mean variance",
    "epsilon data_format is_training",
    "y batch_mean batch_variance",
)


@op("compat.v1.nn.fused_batch_norm")
def fused_batch_norm(
    x: Value,
    scale: Value,
    offset: Value,
    mean: Value | None = None,
    variance: Value | None = None,
    epsilon: float = 0.001,
    data_format: Layout = "channels_last",
    is_training: bool = True,
) -> tuple[Value, ...]:
    """Return the normalized `x`, then the mean and the variance it was given.

    In training, these are those of the batch, and only `x` is returned. The kernel
    computes in float32, the dtype of all but `x`.
    """
    rank = computed.rank(x)
    axis = rank - 1 if data_format == "channels_last" else 1
    values = ops.cast(x, "float32")
    if is_training:
        others = [i for i in range(rank) if i != axis]
        mean, variance = ops.moments(values, axes=others)
    line = [-1] + [1] * (rank - 1 - axis)
    center, spread, middle, factor = (
        computed.reshape(one, line) for one in (mean, variance, offset, scale)
    )
    factor = ops.multiply(factor, ops.rsqrt(ops.add(spread, epsilon)))
    found = ops.add(ops.multiply(ops.subtract(values, center), factor), middle)
    found = ops.cast(found, dtype_of(x))
    return (found,) if is_training else (found, mean, variance)


@op(FusedBatchNorm=FUSED, FusedBatchNormV2=FUSED, FusedBatchNormV3=FUSED)
def fused_batch_norm_node(
    x: Value,
    scale: Value,
    offset: Value,
    mean: Value,
    variance: Value,
    epsilon: float = 1e-4,
    data_format: Layout = "channels_last",
    is_training: bool = True,
) -> tuple[Value, ...]:
    """Do the same; the node has another default, and files leave defaults out."""
    return fused_batch_norm(
        x, scale, offset, mean, variance, epsilon, data_format, is_training
    )


@op(
    "nn.local_response_normalization",
    "nn.lrn",
    v1=True,
    LRN=Raw("input", "depth_radius bias alpha beta"),
)
def local_response_normalization(
    input: Value,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
) -> Value:
    """Divide by a power of the sum of squares of channels that are near."""
    number = computed.arange(0, computed.shape(input)[-1])
    distance = ops.abs(ops.subtract(ops.expand_dims(number, -1), number))
    is_near = ops.cast(ops.less_equal(distance, depth_radius), dtype_of(input))
    total = ops.matmul(ops.square(input), is_near)
    return ops.divide(input, ops.power(ops.add(ops.multiply(total, alpha), bias), beta))
