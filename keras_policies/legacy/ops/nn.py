"""`tf.nn`: activations, losses, normalization and embeddings."""

from keras import ops

from keras_policies.legacy.ops import elementwise, keras_backend
from keras_policies.legacy.ops.array_indexing import gather
from keras_policies.legacy.ops.elementwise import constant, of_tensors
from keras_policies.legacy.ops.kinds import Axes, Operand, Tensor
from keras_policies.legacy.ops.registry import Raw, op

elementwise.register(
    "x",
    ("relu", None, "nn.relu", "Relu"),
    ("relu6", None, "nn.relu6", "Relu6"),
    ("elu", None, "nn.elu", "Elu"),
    ("selu", None, "nn.selu", "Selu"),
    ("softsign", None, "nn.softsign", "Softsign"),
)


@op("nn.softmax", v1=True, Softmax=Raw("logits"), renamed={"dim": "axis"})
def softmax(logits: Tensor, axis: int = -1) -> Tensor:
    """Return probabilities."""
    return ops.softmax(logits, axis=axis)


@op("nn.log_softmax", v1=True, LogSoftmax=Raw("logits"), renamed={"dim": "axis"})
def log_softmax(logits: Tensor, axis: int = -1) -> Tensor:
    """Return logarithms of probabilities."""
    return ops.log_softmax(logits, axis=axis)


@op("nn.leaky_relu", LeakyRelu=Raw("features", "alpha"))
def leaky_relu(features: Tensor, alpha: float = 0.2) -> Tensor:
    """Return `features`, multiplied by `alpha` where they are negative."""
    return ops.leaky_relu(features, negative_slope=alpha)


@op("nn.gelu")
def gelu(features: Tensor, approximate: bool = False) -> Tensor:
    """Return GELU, by default the exact one."""
    return ops.gelu(features, approximate=approximate)


@op("nn.silu", "nn.swish")
def silu(features: Tensor, beta: float = 1.0) -> Tensor:
    """Return `features * sigmoid(beta * features)`."""
    if beta == 1:
        return ops.silu(features)
    return ops.multiply(features, ops.sigmoid(ops.multiply(features, beta)))


@op("nn.crelu", v1=True)
def crelu(features: Tensor, axis: int = -1) -> Tensor:
    """Return the positive parts of `features` and of `-features`, one after another."""
    return ops.concatenate([ops.relu(features), ops.relu(ops.negative(features))], axis)


op("nn.l2_loss", L2Loss=Raw("t"))(
    of_tensors(lambda t: ops.multiply(ops.sum(ops.square(t)), 0.5))
)


@op("nn.sigmoid_cross_entropy_with_logits", v1=True)
def sigmoid_cross_entropy(labels: Operand, logits: Operand) -> Tensor:
    """Return the cross entropy of independent classes."""
    return keras_backend.binary_crossentropy(labels, logits, True)


@op(
    "nn.softmax_cross_entropy_with_logits",
    "compat.v1.nn.softmax_cross_entropy_with_logits_v2",
    renamed={"dim": "axis"},
)
def softmax_cross_entropy(labels: Operand, logits: Operand, axis: int = -1) -> Tensor:
    """Return the cross entropy of classes given as probabilities."""
    return keras_backend.categorical_crossentropy(labels, logits, True, axis)


@op("nn.sparse_softmax_cross_entropy_with_logits", v1=True)
def sparse_cross_entropy(labels: Tensor, logits: Tensor) -> Tensor:
    """Return the cross entropy of classes given as numbers."""
    return ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)


@op("nn.moments", v1=True, renamed={"keep_dims": "keepdims"})
def moments(x: Tensor, axes: Axes, keepdims: bool = False) -> tuple[Tensor, ...]:
    """Return mean and variance."""
    return tuple(ops.moments(x, axes, keepdims=keepdims))


@op("nn.batch_normalization")
def batch_normalization(
    x: Tensor,
    mean: Operand,
    variance: Operand,
    offset: Operand = 0.0,
    scale: Operand = 1.0,
    variance_epsilon: float = 1e-3,
) -> Tensor:
    """Return `(x - mean) / sqrt(variance + variance_epsilon) * scale + offset`."""
    given = mean, variance, offset, scale
    mean, variance, offset, scale = (constant(value, x) for value in given)
    root = ops.sqrt(ops.add(variance, variance_epsilon))
    normal = ops.divide(ops.subtract(x, mean), root)
    return ops.add(ops.multiply(normal, scale), offset)


@op("nn.embedding_lookup", v1=True)
def embedding_lookup(params: Operand, ids: Operand, max_norm: object = None) -> Operand:
    """Take the rows at these positions."""
    if max_norm is not None:
        raise ValueError(f"max_norm: expected None, found {max_norm!r}")
    return gather(params, ids, axis=0)
