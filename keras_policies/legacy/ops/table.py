"""All the TensorFlow functions that are known, under every name that files record."""

from keras_policies.legacy.ops import (
    algebra,
    arrays,
    elementwise,
    images,
    indexing,
    kinds,
    mathematics,
    networks,
)

FUNCTIONS = {
    **elementwise.FUNCTIONS,
    **mathematics.FUNCTIONS,
    **arrays.FUNCTIONS,
    **indexing.FUNCTIONS,
    **algebra.FUNCTIONS,
    **networks.FUNCTIONS,
    **images.FUNCTIONS,
}
# Other names of the same functions. tf.keras records the v1 name of some that v2 has,
# under which only these are the same.
ALIASES = {
    "__operators__.add": "math.add",
    "__operators__.eq": "math.equal",
    "__operators__.ne": "math.not_equal",
    "math.truediv": "math.divide",
    "math.mod": "math.floormod",
    "math.accumulate_n": "math.add_n",
    "compat.v1.math.scalar_mul": "math.scalar_mul",
    "compat.v1.floor_div": "math.floordiv",
    "compat.v1.div": "math.divide",
    "compat.v1.shape": "shape",
    "compat.v1.size": "size",
    "compat.v1.rank": "rank",
    "compat.v1.transpose": "transpose",
    "compat.v1.squeeze": "squeeze",
    "compat.v1.pad": "pad",
    "compat.v1.norm": "norm",
    "compat.v1.gather": "gather",
    "compat.v1.gather_nd": "gather_nd",
    "compat.v1.ones_like": "ones_like",
    "compat.v1.zeros_like": "zeros_like",
    "compat.v1.image.resize_images": "image.legacy_resize",
    "compat.v1.image.resize_bilinear": "image.legacy_resize_bilinear",
    "compat.v1.image.resize_nearest_neighbor": "image.legacy_resize_nearest",
    "compat.v1.nn.conv1d": "nn.convolution",
    "compat.v1.nn.conv2d": "nn.convolution",
    "compat.v1.nn.conv3d": "nn.convolution",
    "compat.v1.nn.convolution": "nn.convolution",
    "compat.v1.nn.depthwise_conv2d": "nn.depthwise_conv2d",
    "compat.v1.nn.separable_conv2d": "nn.separable_conv2d",
    "compat.v1.nn.pool": "nn.pool",
    "compat.v1.nn.moments": "nn.moments",
    "compat.v1.nn.embedding_lookup": "nn.embedding_lookup",
    "compat.v1.nn.crelu": "nn.crelu",
    "compat.v1.nn.softmax": "nn.softmax",
    "compat.v1.nn.log_softmax": "nn.log_softmax",
    "compat.v1.nn.avg_pool": "nn.avg_pool",
    "compat.v1.nn.max_pool": "nn.max_pool",
    "compat.v1.math.in_top_k": "math.in_top_k",
    "compat.v1.nn.sigmoid_cross_entropy_with_logits": (
        "nn.sigmoid_cross_entropy_with_logits"
    ),
    "compat.v1.nn.softmax_cross_entropy_with_logits_v2": (
        "nn.softmax_cross_entropy_with_logits"
    ),
    "compat.v1.nn.sparse_softmax_cross_entropy_with_logits": (
        "nn.sparse_softmax_cross_entropy_with_logits"
    ),
    "nn.conv1d": "nn.convolution",
    "nn.conv2d": "nn.convolution",
    "nn.conv3d": "nn.convolution",
    "nn.max_pool1d": "nn.max_pool",
    "nn.max_pool2d": "nn.max_pool",
    "nn.avg_pool1d": "nn.avg_pool",
    "nn.avg_pool2d": "nn.avg_pool",
    "nn.sigmoid": "math.sigmoid",
    "nn.tanh": "math.tanh",
    "nn.softplus": "math.softplus",
    "nn.l2_normalize": "math.l2_normalize",
    "nn.swish": "nn.silu",
    "nn.top_k": "math.top_k",
    "linalg.l2_normalize": "math.l2_normalize",
    "linalg.norm": "norm",
    "linalg.tensordot": "tensordot",
    "linalg.einsum": "einsum",
    "linalg.adjoint": "linalg.matrix_transpose",
}
# Parameters that some of these names have otherwise.
PARAMETERS = {
    "dim": "axis",
    "dims": "axis",
    "dilation_rate": "dilations",
    "filter": "filters",
    "keep_dims": "keepdims",
    "rate": "dilations",
    "reduction_indices": "axis",
    "squeeze_dims": "axis",
    "stride": "strides",
    "window_shape": "ksize",
}
# Settings of how TensorFlow computes, not of what; whatever their value.
WITHOUT_EFFECT = frozenset(
    (
        "a_is_sparse",
        "b_is_sparse",
        "name",
        "partition_strategy",
        "stable",
        "use_cudnn_on_gpu",
        "validate_indices",
        "validate_shape",
    )
)


def resolve(name):
    """Return the name under which a function stands in the table, or None."""
    while name in ALIASES:
        name = ALIASES[name]
    return name if name in FUNCTIONS else None


def call(name, args, kwargs):
    """Call a TensorFlow function, by name, on tensors of a Keras model.

    Args:
        name: str, such as `"math.add"`.
        args: list, as TensorFlow takes them.
        kwargs: dict, likewise.

    Raises:
        ValueError: if an argument is not of its kind.
    """
    function = FUNCTIONS[resolve(name)]
    own = kinds.parameters(function)
    named = {
        key if key in own else PARAMETERS.get(key, key): value
        for key, value in kwargs.items()
        if key in own or not (value is None or key in WITHOUT_EFFECT)
    }
    return kinds.checked_call(function, args, named)
