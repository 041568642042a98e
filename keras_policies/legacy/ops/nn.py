"""`tf.nn`: activations, losses, normalization and embeddings."""

from keras_policies.legacy.ops import elementwise, keras_backend
from keras_policies.legacy.ops.array_indexing import gather
from keras_policies.legacy.ops.elementwise import of_values
from keras_policies.legacy.ops.kinds import Axes, Value
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.values.evaluator import ops

elementwise.register(
    "x",
    ("relu", "nn.relu", "Relu"),
    ("relu6", "nn.relu6", "Relu6"),
    ("elu", "nn.elu", "Elu"),
    ("selu", "nn.selu", "Selu"),
    ("softsign", "nn.softsign", "Softsign"),
)


@op("nn.softmax", v1=True, Softmax=Raw("logits"), renamed={"dim": "axis"})
def softmax(logits: Value, axis: int = -1) -> Value:
    """Return probabilities."""
    return ops.softmax(logits, axis=axis)


@op("nn.log_softmax", v1=True, LogSoftmax=Raw("logits"), renamed={"dim": "axis"})
def log_softmax(logits: Value, axis: int = -1) -> Value:
    """Return logarithms of probabilities."""
    return ops.log_softmax(logits, axis=axis)


@op("nn.leaky_relu", LeakyRelu=Raw("features", "alpha"))
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


op("nn.l2_loss", L2Loss=Raw("t"))(
    of_values(lambda t: ops.multiply(ops.sum(ops.square(t)), 0.5))
)


@op("nn.sigmoid_cross_entropy_with_logits", v1=True)
def sigmoid_cross_entropy(labels: Value, logits: Value) -> Value:
    """Return the cross entropy of independent classes."""
    return keras_backend.binary_crossentropy(labels, logits, True)


@op(
    "nn.softmax_cross_entropy_with_logits",
    "compat.v1.nn.softmax_cross_entropy_with_logits_v2",
    renamed={"dim": "axis"},
)
def softmax_cross_entropy(labels: Value, logits: Value, axis: int = -1) -> Value:
    """Return the cross entropy of classes given as probabilities."""
    return keras_backend.categorical_crossentropy(labels, logits, True, axis)


@op("nn.sparse_softmax_cross_entropy_with_logits", v1=True)
def sparse_cross_entropy(labels: Value, logits: Value) -> Value:
    """Return the cross entropy of classes given as numbers."""
    return ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)


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
