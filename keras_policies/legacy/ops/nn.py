"""`tf.nn`: activations, losses, normalization and embeddings."""

from keras_policies.legacy.ops.array_indexing import gather
from keras_policies.legacy.ops.array_values import one_hot
from keras_policies.legacy.ops.converters import Axes, Layout, Value
from keras_policies.legacy.ops.registry import functions, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.evaluator import dtype_of, ops

functions(
    "x",
    "nn.relu Relu: relu",
    "nn.relu6 Relu6: relu6",
    "nn.elu Elu: elu",
    "nn.selu Selu: selu",
    "nn.softsign Softsign: softsign",
)


functions("t", "nn.l2_loss L2Loss: sum(square(t)) * 0.5")
functions(
    "features alpha:float=0.2",
    "nn.leaky_relu LeakyRelu: leaky_relu(features, negative_slope=alpha)",
)
functions("features approximate:bool=False", "nn.gelu: gelu")
functions(
    "features axis:int=-1",
    "nn.crelu: concatenate([relu(features), relu(-features)], axis)",
    v1=True,
)
functions(
    "labels logits",
    "nn.sigmoid_cross_entropy_with_logits: "
    "binary_crossentropy(labels, logits, from_logits=True)",
    "nn.sparse_softmax_cross_entropy_with_logits: "
    "sparse_categorical_crossentropy(labels, logits, from_logits=True)",
    v1=True,
)
functions(
    "labels logits axis:int=-1",
    "nn.softmax_cross_entropy_with_logits "
    "compat.v1.nn.softmax_cross_entropy_with_logits_v2: "
    "categorical_crossentropy(labels, logits, from_logits=True, axis=axis)",
    renamed={"dim": "axis"},
)
functions(
    "logits axis:int=-1",
    "nn.softmax Softmax: softmax",
    "nn.log_softmax LogSoftmax: log_softmax",
    v1=True,
    renamed={"dim": "axis"},
)


@op("_CTCLoss")  # see programs/idioms.py
def ctc_loss(logits: Value, labels: Value, lengths: Value, times: Value) -> Value:
    """Return the CTC loss of each sequence; the last class is the blank.

    `logits` have the shape (time, batch, classes), `labels` (batch, length).
    """
    outputs = ops.transpose(logits, (1, 0, 2))
    sizes = (ops.cast(value, "int32") for value in (labels, lengths, times))
    labels, lengths, times = sizes
    blank = logits.shape[-1] - 1
    return ops.ctc_loss(labels, outputs, lengths, times, mask_index=blank)


@op("nn.silu nn.swish")
def silu(features: Value, beta: float = 1.0) -> Value:
    """Return `features * sigmoid(beta * features)`."""
    if beta == 1:
        return ops.silu(features)
    return ops.multiply(features, ops.sigmoid(ops.multiply(features, beta)))


@op("SoftmaxCrossEntropyWithLogits(features labels;; loss backprop)")
def cross_entropy_node(features: Value, labels: Value) -> tuple[Value, ...]:
    """Return the cross entropy, and its gradient with respect to the features."""
    loss = ops.negative(ops.sum(ops.multiply(labels, ops.log_softmax(features)), -1))
    return loss, ops.subtract(ops.softmax(features), labels)


@op("SparseSoftmaxCrossEntropyWithLogits(features labels;; loss backprop)")
def sparse_cross_entropy_node(features: Value, labels: Value) -> tuple[Value, ...]:
    """Return the same for class numbers."""
    labels = one_hot(labels, computed.shape(features)[-1], dtype=dtype_of(features))
    return cross_entropy_node(features, labels)


@op("nn.moments", v1=True, renamed={"keep_dims": "keepdims"})
def moments(x: Value, axes: Axes, keepdims: bool = False) -> tuple[Value, ...]:
    """Return mean and variance."""
    return tuple(ops.moments(x, axes, keepdims=keepdims))


functions(
    "x mean variance offset=0.0 scale=1.0 variance_epsilon:float=0.001",
    "nn.batch_normalization: "
    "(x - mean) / sqrt(variance + variance_epsilon) * scale + offset",
)


@op("nn.embedding_lookup", v1=True)
def embedding_lookup(params: Value, ids: Value, max_norm: object = None) -> Value:
    """Take rows by position."""
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
    """Return the normalized `x`, the mean and the variance; in training, only `x`.

    In training, mean and variance are those of the batch. The kernel computes in
    float32, the dtype of all operands except `x`.
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


functions(  # the op has another default, and files omit defaults
    "x scale offset mean variance epsilon:float=0.0001 "
    "data_format:Layout='channels_last' is_training:bool=True",
    (
        fused_batch_norm,
        "FusedBatchNorm|FusedBatchNormV2|FusedBatchNormV3(x scale offset mean variance;"
        " epsilon data_format is_training; y batch_mean batch_variance)",
    ),
)


@op("nn.local_response_normalization nn.lrn LRN", v1=True)
def local_response_normalization(
    input: Value,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
) -> Value:
    """Divide by a power of the sum of squares of nearby channels."""
    number = computed.arange(0, computed.shape(input)[-1])
    distance = ops.abs(ops.subtract(ops.expand_dims(number, -1), number))
    is_near = ops.cast(ops.less_equal(distance, depth_radius), dtype_of(input))
    total = ops.matmul(ops.square(input), is_near)
    return ops.divide(input, ops.power(ops.add(ops.multiply(total, alpha), bias), beta))
