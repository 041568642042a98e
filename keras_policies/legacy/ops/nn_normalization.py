"""`tf.nn`: batch normalization by the fused kernel of graphs."""

from keras import ops

from keras_policies.legacy.ops import sizes
from keras_policies.legacy.ops.kinds import Layout, Operand, Tensor
from keras_policies.legacy.ops.registry import Raw, op

FUSED = Raw("x scale offset mean variance", "epsilon data_format is_training")


@op(
    "compat.v1.nn.fused_batch_norm",
    FusedBatchNorm=FUSED,
    FusedBatchNormV2=FUSED,
    FusedBatchNormV3=FUSED,
)
def fused_batch_norm(
    x: Tensor,
    scale: Operand,
    offset: Operand,
    mean: Operand = None,
    variance: Operand = None,
    epsilon: float = 0.001,
    data_format: Layout = "channels_last",
    is_training: bool = True,
) -> list[Operand]:
    """Return the normalized `x`, then the mean and the variance it was given.

    In training, these are those of the batch, and only `x` is returned. The kernel
    computes in float32, the dtype of all but `x`.
    """
    axis = -1 if data_format == "channels_last" else 1
    values = ops.cast(x, "float32")
    if is_training:
        others = [i for i in range(len(x.shape)) if i != axis % len(x.shape)]
        mean, variance = ops.moments(values, axes=others)
    mean, variance, offset, scale = map(
        sizes.as_tensor, (mean, variance, offset, scale)
    )
    found = ops.batch_normalization(
        values, mean, variance, axis, offset, scale, epsilon
    )
    found = ops.cast(found, x.dtype)
    return [found] if is_training else [found, mean, variance]
