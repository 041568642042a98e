"""`tf.nn`: activations, losses, normalization and embeddings."""

from typing import Any

from keras_policies.legacy.ops.array_indexing import gather
from keras_policies.legacy.ops.array_values import one_hot
from keras_policies.legacy.ops.converters import Axes, Layout, Value
from keras_policies.legacy.ops.registry import OpSignature, functions, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.evaluator import dtype_of, ops

FUSED = OpSignature(
    "x scale offset mean variance",
    "epsilon data_format is_training",
    "y batch_mean batch_variance",
)


CROSS_ENTROPY = OpSignature("features labels", "", "loss backprop")


def _l2_loss(t: Any) -> Any:
    return ops.multiply(ops.sum(ops.square(t)), 0.5)


functions(
    "x",
    ("relu", "nn.relu", "Relu"),
    ("relu6", "nn.relu6", "Relu6"),
    ("elu", "nn.elu", "Elu"),
    ("selu", "nn.selu", "Selu"),
    ("softsign", "nn.softsign", "Softsign"),
)


functions("t", (_l2_loss, "nn.l2_loss", "L2Loss"))
functions(
    "logits axis:int=-1",
    ("softmax", "nn.softmax", "Softmax"),
    ("log_softmax", "nn.log_softmax", "LogSoftmax"),
    v1=True,
    renamed={"dim": "axis"},
)


@op(nodes="_CTCLoss")  # see programs/idioms.py
def ctc_loss(logits: Value, labels: Value, lengths: Value, times: Value) -> Value:
    """Return the CTC loss of each sequence; logits of the last class are the blank's.

    `logits` have the shape (time, batch, classes), `labels` (batch, length).
    """
    outputs = ops.transpose(logits, (1, 0, 2))
    sizes = (ops.cast(value, "int32") for value in (labels, lengths, times))
    labels, lengths, times = sizes
    blank = logits.shape[-1] - 1
    return ops.ctc_loss(labels, outputs, lengths, times, mask_index=blank)


@op("nn.leaky_relu", nodes="LeakyRelu")
def leaky_relu(features: Value, alpha: float = 0.2) -> Value:
    """Return `features`, multiplied by `alpha` where they are negative."""
    return ops.leaky_relu(features, negative_slope=alpha)


@op("nn.gelu")
def gelu(features: Value, approximate: bool = False) -> Value:
    """Return GELU, by default the exact one."""
    return ops.gelu(features, approximate=approximate)


@op("nn.silu", "nn.swish")
def silu(features: Value, beta: float = 1.0) -> Value:
    """Return `features * sigmoid(beta * features)`."""
    if beta == 1:
        return ops.silu(features)
    return ops.multiply(features, ops.sigmoid(ops.multiply(features, beta)))


@op("nn.crelu", v1=True)
def crelu(features: Value, axis: int = -1) -> Value:
    """Return the positive parts of `features` and of `-features`, one after another."""
    return ops.concatenate([ops.relu(features), ops.relu(ops.negative(features))], axis)


@op("nn.sigmoid_cross_entropy_with_logits", v1=True)
def sigmoid_cross_entropy(labels: Value, logits: Value) -> Value:
    """Return the cross entropy of independent classes."""
    return ops.binary_crossentropy(labels, logits, from_logits=True)


@op(
    "nn.softmax_cross_entropy_with_logits",
    "compat.v1.nn.softmax_cross_entropy_with_logits_v2",
    renamed={"dim": "axis"},
)
def softmax_cross_entropy(labels: Value, logits: Value, axis: int = -1) -> Value:
    """Return the cross entropy of classes given as probabilities."""
    return ops.categorical_crossentropy(labels, logits, from_logits=True, axis=axis)


@op("nn.sparse_softmax_cross_entropy_with_logits", v1=True)
def sparse_cross_entropy(labels: Value, logits: Value) -> Value:
    """Return the cross entropy of classes given as numbers."""
    return ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)


@op(SoftmaxCrossEntropyWithLogits=CROSS_ENTROPY)
def cross_entropy_node(features: Value, labels: Value) -> tuple[Value, ...]:
    """Return the cross entropy of classes, and its gradient by the features."""
    loss = ops.negative(ops.sum(ops.multiply(labels, ops.log_softmax(features)), -1))
    return loss, ops.subtract(ops.softmax(features), labels)


@op(SparseSoftmaxCrossEntropyWithLogits=CROSS_ENTROPY)
def sparse_cross_entropy_node(features: Value, labels: Value) -> tuple[Value, ...]:
    """Do the same for numbers of classes."""
    labels = one_hot(labels, computed.shape(features)[-1], dtype=dtype_of(features))
    return cross_entropy_node(features, labels)


@op("nn.moments", v1=True, renamed={"keep_dims": "keepdims"})
def moments(x: Value, axes: Axes, keepdims: bool = False) -> tuple[Value, ...]:
    """Return mean and variance."""
    return tuple(ops.moments(x, axes, keepdims=keepdims))


@op("nn.batch_normalization")
def batch_normalization(
    x: Value,
    mean: Value,
    variance: Value,
    offset: Value = 0.0,
    scale: Value = 1.0,
    variance_epsilon: float = 1e-3,
) -> Value:
    """Return `(x - mean) / sqrt(variance + variance_epsilon) * scale + offset`."""
    root = ops.sqrt(ops.add(variance, variance_epsilon))
    normal = ops.divide(ops.subtract(x, mean), root)
    return ops.add(ops.multiply(normal, scale), offset)


@op("nn.embedding_lookup", v1=True)
def embedding_lookup(params: Value, ids: Value, max_norm: object = None) -> Value:
    """Take the rows at these positions."""
    if max_norm is not None:
        raise ValueError(f"max_norm: expected None, found {max_norm!r}")
    return gather(params, ids, axis=0)


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
    center, spread, middle, factor = (
        computed.along(line, 0, rank - axis) for line in (mean, variance, offset, scale)
    )
    factor = ops.multiply(factor, ops.rsqrt(ops.add(spread, epsilon)))
    outputs = ops.add(ops.multiply(ops.subtract(values, center), factor), middle)
    outputs = ops.cast(outputs, dtype_of(x))
    return (outputs,) if is_training else (outputs, mean, variance)


functions(  # the node has another default, and files leave defaults out
    "x scale offset mean variance epsilon:float=0.0001 "
    "data_format:Layout='channels_last' is_training:bool=True",
    (fused_batch_norm, "", "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3"),
    raw=FUSED,
)


@op("nn.local_response_normalization", "nn.lrn", nodes="LRN", v1=True)
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
