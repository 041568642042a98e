"""The cases of write_ops.py: inputs, and a function of them, under each name."""

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
apps, K = keras.applications, keras.backend


def spec(*shape, **options):
    """An input: its shape without the batch, its dtype, the range of its values.

    An axis of None is 5 long in the recorded arrays; other options go to `Input`.
    """
    return dict({"dtype": "float32", "low": -1, "high": 1}, shape=shape, **options)


X = spec(4)
POSITIVE = spec(4, low=0.1, high=2)
LARGE = spec(4, low=-5, high=5)
INTS = spec(4, dtype="int32", low=-9, high=10)
BOOLS = spec(4, dtype="bool", low=0, high=2)
BYTES = spec(5, 4, dtype="uint8", low=0, high=256)
IDS = spec(5, dtype="int32", low=0, high=4)
ROWS = spec(5, 4)
FREE = spec(None, 4)
SQUARE = spec(3, 3)
IMAGE = spec(6, 8, 3)
UNIT_IMAGE = spec(6, 8, 3, low=0)
PIXELS = spec(6, 8, 3, low=0, high=256)
FREE_IMAGE = spec(None, None, 3)
DEEP_IMAGE = spec(6, 8, 4)
VOLUME = spec(4, 4, 4, 2)
TABLE = np.arange(12, dtype="float32").reshape(3, 4) / 7
KERNEL = np.sin(np.arange(54, dtype="float32")).reshape(3, 3, 3, 2)

# Functions by their name in tf, called with the inputs and nothing else.
PLAIN = [
    (
        [X],
        "abs negative exp sign floor round sin cos tan asin acos atan sinh cosh tanh "
        "square sigmoid identity stop_gradient convert_to_tensor shape rank size "
        "zeros_like ones_like transpose sort argsort cumsum math.cumprod math.erf "
        "math.erfc math.expm1 math.ceil math.rint math.atanh math.asinh math.angle "
        "math.is_nan math.is_inf math.is_finite math.cumulative_logsumexp "
        "math.sigmoid math.log_sigmoid math.erfinv math.bessel_i0 math.real "
        "math.l2_normalize reduce_sum reduce_mean reduce_max reduce_min reduce_prod "
        "math.reduce_std math.reduce_variance reduce_logsumexp "
        "math.reduce_euclidean_norm norm linalg.diag linalg.norm nn.l2_loss "
        "nn.zero_fraction nn.relu nn.leaky_relu nn.elu nn.selu nn.gelu nn.swish "
        "nn.silu nn.softplus nn.softsign nn.sigmoid nn.tanh nn.softmax nn.log_softmax "
        "nn.crelu squeeze math.argmax math.argmin keras.activations.relu "
        "keras.activations.elu keras.activations.selu keras.activations.gelu "
        "keras.activations.swish keras.activations.softplus "
        "keras.activations.softsign keras.activations.sigmoid keras.activations.tanh "
        "keras.activations.hard_sigmoid keras.activations.exponential "
        "keras.activations.softmax keras.activations.linear keras.activations.mish "
        "keras.backend.mean keras.backend.batch_flatten keras.backend.shape "
        "keras.backend.relu keras.backend.tanh keras.backend.hard_sigmoid "
        "keras.backend.softsign keras.backend.square keras.backend.exp "
        "keras.backend.abs keras.backend.sin keras.backend.cos keras.backend.sign "
        "keras.backend.round keras.backend.sigmoid keras.backend.softplus "
        "keras.backend.elu keras.backend.zeros_like keras.backend.ones_like "
        "keras.backend.stop_gradient",
    ),
    ([LARGE], "nn.relu6"),
    ([spec(16)], "signal.rfft"),
    ([spec(dtype="int32", low=0, high=2)], "unique"),
    (
        [POSITIVE],
        "math.log math.log1p sqrt math.rsqrt math.reciprocal math.lgamma math.digamma "
        "keras.backend.log keras.backend.sqrt",
    ),
    ([spec(4, low=1.5, high=3)], "math.acosh"),
    ([BOOLS], "logical_not reduce_any reduce_all where"),
    ([INTS], "bitwise.invert"),
    ([IDS], "math.bincount"),
    (
        [X, X],
        "add subtract multiply divide maximum minimum atan2 math.add math.subtract "
        "math.multiply math.squared_difference math.divide_no_nan "
        "math.multiply_no_nan math.truediv math.floordiv math.floormod math.mod equal "
        "not_equal less less_equal greater greater_equal math.xdivy keras.losses.mse "
        "keras.losses.mae keras.losses.mape keras.losses.msle keras.losses.huber "
        "keras.losses.logcosh keras.losses.cosine_similarity keras.losses.kld "
        "keras.losses.hinge keras.losses.squared_hinge keras.losses.categorical_hinge "
        "keras.backend.maximum keras.backend.minimum keras.backend.equal "
        "keras.backend.not_equal keras.backend.greater keras.backend.greater_equal "
        "keras.backend.less keras.backend.less_equal "
        "nn.softmax_cross_entropy_with_logits complex",
    ),
    (
        [POSITIVE, POSITIVE],
        "pow math.xlogy keras.losses.poisson",
    ),
    ([spec(4, low=0.1, high=0.9)], "math.ndtri"),
    (
        [spec(4, low=0), spec(4, low=0)],
        "keras.losses.binary_crossentropy keras.losses.categorical_crossentropy "
        "keras.backend.binary_crossentropy keras.backend.categorical_crossentropy",
    ),
    ([BOOLS, BOOLS], "logical_and logical_or math.logical_xor"),
    (
        [INTS, INTS],
        "bitwise.bitwise_and bitwise.bitwise_or bitwise.bitwise_xor truncatediv "
        "truncatemod",
    ),
    ([ROWS], "keras.backend.transpose keras.backend.flatten"),
    ([ROWS, spec(4, 3)], "linalg.matmul"),
    ([SQUARE, SQUARE], "matmul keras.backend.dot"),
    (
        [SQUARE],
        "linalg.trace linalg.diag_part linalg.inv linalg.det linalg.adjoint "
        "linalg.matrix_transpose linalg.svd linalg.qr linalg.expm",
    ),
    (
        [IMAGE],
        "image.flip_left_right image.flip_up_down image.rot90 image.transpose "
        "image.rgb_to_grayscale image.per_image_standardization image.sobel_edges "
        "image.total_variation image.image_gradients",
    ),
    ([UNIT_IMAGE], "image.rgb_to_hsv image.hsv_to_rgb image.rgb_to_yuv"),
    ([spec(6, 8, 1)], "image.grayscale_to_rgb"),
    (
        [PIXELS],
        "keras.applications.mobilenet.preprocess_input "
        "keras.applications.mobilenet_v2.preprocess_input "
        "keras.applications.mobilenet_v3.preprocess_input "
        "keras.applications.resnet50.preprocess_input "
        "keras.applications.resnet_v2.preprocess_input "
        "keras.applications.vgg16.preprocess_input "
        "keras.applications.vgg19.preprocess_input "
        "keras.applications.inception_v3.preprocess_input "
        "keras.applications.inception_resnet_v2.preprocess_input "
        "keras.applications.xception.preprocess_input "
        "keras.applications.densenet.preprocess_input "
        "keras.applications.nasnet.preprocess_input "
        "keras.applications.efficientnet.preprocess_input "
        "keras.applications.efficientnet_v2.preprocess_input "
        "keras.applications.convnext.preprocess_input",
    ),
]


def look_up(name):
    """Return `tf.<name>`."""
    found = tf
    for part in name.split("."):
        found = getattr(found, part)
    return found


def short(name):
    for long, brief in (("keras.applications.", ""), ("keras.backend.", "k_")):
        name = name.replace(long, brief)
    return name.replace("keras.", "").replace(".", "_")


def plain(name):
    return lambda *tensors: look_up(name)(*tensors)


# Name -> (inputs, a function of them that gives a tensor, tensors, or a model).
CASES = {
    short(name): (specs, plain(name))
    for specs, names in PLAIN
    for name in names.split()
}

OPERATORS = {
    "op_add": ([X, X], lambda x, y: x + y),
    "op_subtract": ([X, X], lambda x, y: x - y),
    "op_multiply": ([X, X], lambda x, y: x * y),
    "op_divide": ([X, X], lambda x, y: x / y),
    "op_add_number": ([X], lambda x: x + 1),
    "op_subtract_number": ([X], lambda x: x - 1),
    "op_number_subtract": ([X], lambda x: 1 - x),
    "op_number_multiply": ([X], lambda x: 2 * x),
    "op_divide_number": ([X], lambda x: x / 255.0),
    "op_number_divide": ([POSITIVE], lambda x: 1 / x),
    "op_floordiv": ([LARGE], lambda x: x // 2),
    "op_mod": ([LARGE], lambda x: x % 3),
    "op_power": ([X], lambda x: x**2),
    "op_number_power": ([X], lambda x: 2**x),
    "op_negative": ([X], lambda x: -x),
    "op_abs": ([X], abs),
    "op_matmul": ([ROWS, spec(4, 3)], lambda x, y: x @ y),
    "op_matmul_constant": ([ROWS], lambda x: x @ TABLE.T),
    "op_greater": ([X], lambda x: x > 0),
    "op_greater_equal": ([X, X], lambda x, y: x >= y),
    "op_less": ([X], lambda x: x < 0.5),
    "op_less_equal": ([X, X], lambda x, y: x <= y),
    "op_equal": ([IDS, IDS], lambda x, y: x == y),
    "op_not_equal": ([IDS], lambda x: x != 0),
    "op_and": ([X], lambda x: (x > -0.5) & (x < 0.5)),
    "op_or": ([X], lambda x: (x < -0.5) | (x > 0.5)),
    "op_xor": ([BOOLS, BOOLS], lambda x, y: x ^ y),
    "op_invert": ([BOOLS], lambda x: ~x),
    "int_add_number": ([INTS], lambda x: x + 1),
    "int_number_subtract": ([INTS], lambda x: 10 - x),
    "int_multiply": ([INTS, INTS], lambda x, y: x * y),
    "int_divide": ([INTS], lambda x: x / 4),
    "int_floordiv": ([INTS], lambda x: x // 4),
    "int_mod": ([INTS], lambda x: x % 4),
    "int_to_float": ([INTS], lambda x: tf.cast(x, tf.float32) / 9.0),
    "add_array": ([X], lambda x: x + TABLE[0]),
    "array_subtract": ([X], lambda x: TABLE[0] - x),
    "multiply_constant": ([X], lambda x: x * tf.constant([1.0, 2.0, 3.0, 4.0])),
    "constant_multiply": ([ROWS], lambda x: tf.constant([[2.0, 3.0, 4.0, 5.0]]) * x),
    "constant_broadcast": ([ROWS], lambda x: x + tf.constant(TABLE[:1].T[:1])),
    "tf_add_number": ([X], lambda x: tf.add(x, 1.0)),
    "tf_number_subtract": ([X], lambda x: tf.subtract(1.0, x)),
    "tf_multiply_number": ([X], lambda x: tf.math.multiply(x, 0.5)),
    "tf_number_multiply": ([X], lambda x: tf.multiply(0.5, x)),
    "tf_divide_number": ([X], lambda x: tf.divide(x, 127.5)),
    "tf_pow_number": ([POSITIVE], lambda x: tf.pow(x, 0.5)),
    "tf_maximum_number": ([X], lambda x: tf.maximum(x, 0.0)),
    "tf_minimum_number": ([X], lambda x: tf.minimum(0.3, x)),
    "add_n_of_three": ([X, X, X], lambda x, y, z: tf.add_n([x, y, z])),
    "add_same_tensor": ([X], lambda x: x + x),
    "chain": ([X], lambda x: (x * 2 - 1) / 3 + x**2),
    "math_scalar_mul": ([X], lambda x: tf.math.scalar_mul(3.0, x)),
    "math_accumulate_n": ([X, X], lambda x, y: tf.math.accumulate_n([x, y])),
    "math_polyval": ([X], lambda x: tf.math.polyval([1.0, 2.0, 3.0], x)),
    "captured_variable": ([X], lambda x: x * tf.Variable([1.0, 2.0, 3.0, 4.0])),
    "keyword_tensor": ([X, X], lambda x, y: tf.add(x, y=y)),
    "keywords_only": ([X, X], lambda x, y: tf.multiply(x=x, y=y)),
    "named_op": ([X, X], lambda x, y: tf.add(x, y, name="my_sum")),
    "named_output": ([X], lambda x: tf.identity(x * 2, name="output")),
    "named_scope": ([X], lambda x: tf.nn.relu(x, name="block/relu")),
}


def gated(x):
    left, right = tf.split(x, 2, axis=1)
    return tf.tanh(left) * tf.sigmoid(right)


SHAPES = {
    "concat": ([X, X], lambda x, y: tf.concat([x, y], axis=-1)),
    "concat_axis_1": ([ROWS, FREE], lambda x, y: tf.concat([x, y], 1)),
    "concat_constant": (
        [spec(4, batch_size=3)],
        lambda x: tf.concat([x, tf.constant(TABLE)], 1),
    ),
    "concat_zeros_like": ([X], lambda x: tf.concat([x, tf.zeros_like(x)], axis=1)),
    "concat_keyword": ([X, X], lambda x, y: tf.concat(values=[x, y], axis=1)),
    "stack": ([X, X], lambda x, y: tf.stack([x, y])),
    "stack_axis": ([X, X], lambda x, y: tf.stack([x, y], axis=1)),
    "stack_last": ([X, X], lambda x, y: tf.stack((x, y), axis=-1)),
    "unstack": ([ROWS], lambda x: tf.unstack(x, axis=1)),
    "unstack_some": ([ROWS], lambda x: tf.unstack(x, num=4, axis=-1)[2] * 2),
    "split": ([X], lambda x: tf.split(x, 2, axis=-1)),
    "split_sizes": ([ROWS], lambda x: tf.split(x, [1, 3], axis=2)),
    "split_rest": ([ROWS], lambda x: tf.split(x, [1, -1], axis=2)),
    "split_keyword": (
        [ROWS],
        lambda x: tf.split(value=x, num_or_size_splits=2, axis=2),
    ),
    "split_used_apart": ([X], gated),
    "split_one_used": ([X], lambda x: tf.split(x, 4, axis=1)[3] + 1),
    "reshape": ([ROWS], lambda x: tf.reshape(x, (-1, 20))),
    "reshape_infer": ([ROWS], lambda x: tf.reshape(x, [-1, 2, 10])),
    "reshape_all_axes": ([ROWS], lambda x: tf.reshape(x, [-1])),
    "reshape_by_shape": ([ROWS], lambda x: tf.reshape(x, [tf.shape(x)[0], 20])),
    "reshape_by_shape_infer": (
        [FREE],
        lambda x: tf.reshape(x, (tf.shape(x)[0], -1, 2, 2)),
    ),
    "reshape_by_stack": (
        [FREE],
        lambda x: tf.reshape(x, tf.stack([tf.shape(x)[0], tf.shape(x)[1] * 2, 2])),
    ),
    "reshape_by_static_shape": (
        [ROWS],
        lambda x: tf.reshape(x, [-1, x.shape[1] * x.shape[2]]),
    ),
    "reshape_by_get_shape": (
        [ROWS],
        lambda x: tf.reshape(x, [-1, *x.get_shape().as_list()[1:], 1]),
    ),
    "reshape_by_other_shape": (
        [spec(20), ROWS],
        lambda x, y: tf.reshape(x, tf.shape(y)),
    ),
    "reshape_fixed_batch": (
        [spec(4, batch_size=3)],
        lambda x: tf.reshape(x, (3 * 2, 2)),
    ),
    "transpose_perm": ([ROWS], lambda x: tf.transpose(x, [0, 2, 1])),
    "transpose_keyword": ([IMAGE], lambda x: tf.transpose(x, perm=(0, 3, 1, 2))),
    "transpose_none": ([ROWS], lambda x: tf.transpose(x)),
    "expand_dims": ([X], lambda x: tf.expand_dims(x, -1)),
    "expand_dims_1": ([X], lambda x: tf.expand_dims(x, axis=1)),
    "expand_dims_0": ([X], lambda x: tf.expand_dims(x, 0)),
    "expand_dims_twice": ([X], lambda x: tf.expand_dims(tf.expand_dims(x, 1), 1)),
    "squeeze_axis": ([spec(1, 4, 1)], lambda x: tf.squeeze(x, axis=1)),
    "squeeze_last": ([spec(4, 1)], lambda x: tf.squeeze(x, -1)),
    "squeeze_axes": ([spec(1, 1, 4)], lambda x: tf.squeeze(x, [1, 2])),
    "tile": ([ROWS], lambda x: tf.tile(x, [1, 2, 3])),
    "tile_by_shape": (
        [X, FREE],
        lambda x, y: tf.tile(x[:, tf.newaxis], [1, tf.shape(y)[1], 1]),
    ),
    "tile_constant_by_batch": (
        [X],
        lambda x: tf.tile(tf.constant(TABLE)[tf.newaxis], [tf.shape(x)[0], 1, 1]),
    ),
    "cast_int": ([LARGE], lambda x: tf.cast(x, tf.int32)),
    "cast_by_name": ([INTS], lambda x: tf.cast(x, "float32")),
    "cast_bool": ([INTS], lambda x: tf.cast(x, tf.bool)),
    "cast_from_bool": ([X], lambda x: tf.cast(x > 0, tf.float32)),
    "cast_half": ([X], lambda x: tf.cast(x, dtype=tf.float16)),
    "cast_double": ([X], lambda x: tf.cast(x, tf.float64)),
    "saturate_cast": ([LARGE], lambda x: tf.saturate_cast(x * 99, tf.uint8)),
    "bitcast": ([X], lambda x: tf.bitcast(x, tf.int32)),
    "shape_arithmetic": ([FREE], lambda x: tf.shape(x)[0] * 2 + tf.shape(x)[1]),
    "shape_as_float": ([FREE], lambda x: x / tf.cast(tf.shape(x)[1], tf.float32)),
    "shape_slice": ([FREE], lambda x: tf.shape(x)[1:]),
    "shape_unstack": (
        [ROWS],
        lambda x: tf.reshape(x, [tf.unstack(tf.shape(x))[0], 2, 10]),
    ),
    "shape_n": ([X, FREE], lambda x, y: tf.shape_n([x, y])),
    "shape_out_type": ([X], lambda x: tf.shape(x, out_type=tf.int64)),
    "fill_by_shape": ([FREE], lambda x: tf.fill(tf.shape(x), 3.0)),
    "fill_by_dims": ([FREE], lambda x: tf.fill([tf.shape(x)[0], 2], 0.5)),
    "zeros_by_shape": ([FREE], lambda x: tf.zeros(tf.shape(x))),
    "zeros_by_dims": (
        [X],
        lambda x: tf.concat([x, tf.zeros([tf.shape(x)[0], 1])], axis=-1),
    ),
    "ones_by_dims": ([X], lambda x: tf.ones((tf.shape(x)[0], 2)) * x[:, :2]),
    "range_by_shape": ([FREE], lambda x: tf.range(tf.shape(x)[1])),
    "range_start_limit": (
        [FREE],
        lambda x: tf.range(start=0, limit=tf.shape(x)[1], delta=1),
    ),
    "range_of_float": (
        [FREE],
        lambda x: tf.range(tf.cast(tf.shape(x)[1], tf.float32), dtype=tf.float32),
    ),
    "linspace": ([FREE], lambda x: tf.linspace(0.0, tf.reduce_max(x), 4)),
    "meshgrid": (
        [FREE],
        lambda x: tf.meshgrid(tf.range(tf.shape(x)[1]), tf.range(tf.shape(x)[2])),
    ),
    "eye_by_shape": ([FREE], lambda x: tf.eye(tf.shape(x)[1])),
    "eye_batch": ([X], lambda x: tf.eye(4, batch_shape=[tf.shape(x)[0]])),
    "broadcast_to": ([X], lambda x: tf.broadcast_to(x[:, None], [3, 2, 4])),
    "broadcast_to_shape": (
        [spec(1, 4), FREE],
        lambda x, y: tf.broadcast_to(x, tf.shape(y)),
    ),
    "repeat": ([ROWS], lambda x: tf.repeat(x, 2, axis=1)),
    "repeat_each": ([X], lambda x: tf.repeat(x, repeats=[1, 2, 0, 3], axis=1)),
    "roll": ([ROWS], lambda x: tf.roll(x, shift=2, axis=1)),
    "roll_axes": ([IMAGE], lambda x: tf.roll(x, shift=[-1, 2], axis=[1, 2])),
    "reverse": ([ROWS], lambda x: tf.reverse(x, axis=[-1])),
    "reverse_axes": ([ROWS], lambda x: tf.reverse(x, [1, 2])),
    "reverse_sequence": (
        [ROWS, spec(dtype="int32", low=1, high=5)],
        lambda x, y: tf.reverse_sequence(x, y, seq_axis=1),
    ),
    "pad": ([ROWS], lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 1]])),
    "pad_value": (
        [ROWS],
        lambda x: tf.pad(x, [[0, 0], [1, 0], [0, 0]], constant_values=-1.0),
    ),
    "pad_reflect": (
        [IMAGE],
        lambda x: tf.pad(x, [[0, 0], [2, 1], [1, 2], [0, 0]], "REFLECT"),
    ),
    "pad_symmetric": (
        [IMAGE],
        lambda x: tf.pad(x, ((0, 0), (1, 1), (2, 2), (0, 0)), mode="SYMMETRIC"),
    ),
    "pad_constant_tensor": (
        [X],
        lambda x: tf.pad(x, tf.constant([[0, 0], [1, 1]]), "CONSTANT"),
    ),
    "pad_by_shape": (
        [FREE],
        lambda x: tf.pad(x, [[0, 0], [0, 9 - tf.shape(x)[1]], [0, 0]]),
    ),
    "set_shape_like": ([FREE], lambda x: tf.ensure_shape(x, [None, 5, 4])),
    "stack_of_examples": ([X, X], lambda x, y: tf.stack([x[0], y[0]])),
    "space_to_batch": (
        [IMAGE],
        lambda x: tf.space_to_batch(x, [2, 2], [[0, 0], [0, 0]]),
    ),
    "identity_n": ([X, X], lambda x, y: tf.identity_n([x, y])),
}

SLICES = {
    "slice_column": ([ROWS], lambda x: x[:, 0]),
    "slice_range": ([ROWS], lambda x: x[:, 1:3]),
    "slice_open": ([ROWS], lambda x: x[:, 2:]),
    "slice_negative": ([ROWS], lambda x: x[:, :-1]),
    "slice_reverse": ([ROWS], lambda x: x[:, ::-1]),
    "slice_step": ([ROWS], lambda x: x[:, 1:5:2]),
    "slice_ellipsis": ([ROWS], lambda x: x[..., 0]),
    "slice_ellipsis_reverse": ([IMAGE], lambda x: x[..., ::-1]),
    "slice_ellipsis_range": ([IMAGE], lambda x: x[..., 1:3]),
    "slice_last_step": ([ROWS], lambda x: x[:, -1, :]),
    "slice_none": ([X], lambda x: x[:, None]),
    "slice_newaxis_last": ([X], lambda x: x[..., tf.newaxis]),
    "slice_newaxis_twice": ([X], lambda x: x[:, tf.newaxis, tf.newaxis, :]),
    "slice_first_example": ([ROWS], lambda x: x[0]),
    "slice_batch": ([ROWS], lambda x: x[::2]),
    "slice_crop": ([IMAGE], lambda x: x[:, 1:-1, 2:-2, :]),
    "slice_by_ints": ([ROWS], lambda x: [x[:, i : i + 2] for i in range(0, 4, 2)]),
    "slice_bgr": ([IMAGE], lambda x: tf.stack([x[..., i] for i in (2, 1, 0)], -1)),
    "slice_by_shape": (
        [ROWS, FREE],
        lambda x, y: x[:, : tf.shape(y)[1] - 2],
    ),
    "slice_by_tensor_index": (
        [ROWS],
        lambda x: x[:, tf.argmax(x[0, :, 0], output_type=tf.int32)],
    ),
    "slice_mask": ([ROWS], lambda x: x[x > 0]),
    "tf_slice": ([ROWS], lambda x: tf.slice(x, [0, 1, 0], [-1, 2, 3])),
    "tf_slice_by_shape": (
        [FREE],
        lambda x: tf.slice(x, [0, 1, 0], [tf.shape(x)[0], 2, 4]),
    ),
    "tf_strided_slice": (
        [ROWS],
        lambda x: tf.strided_slice(x, [0, 0, 1], [3, 5, 4], [1, 2, 1]),
    ),
    "tf_strided_slice_masks": (
        [ROWS],
        lambda x: tf.strided_slice(x, [0, 1, 0], [0, 3, 0], begin_mask=5, end_mask=5),
    ),
    "gather": ([ROWS], lambda x: tf.gather(x, [0, 2, 3], axis=1)),
    "gather_one": ([ROWS], lambda x: tf.gather(x, 1, axis=-1)),
    "gather_axis_0": ([ROWS], lambda x: tf.gather(x, [2, 0])),
    "gather_batch_dims": (
        [ROWS, spec(2, dtype="int32", low=0, high=5)],
        lambda x, i: tf.gather(x, i, axis=1, batch_dims=1),
    ),
    "gather_from_constant": (
        [spec(5, dtype="int32", low=0, high=3)],
        lambda i: tf.gather(TABLE, i),
    ),
    "gather_nd": (
        [ROWS, spec(2, 1, dtype="int32", low=0, high=5)],
        lambda x, i: tf.gather_nd(x, i, batch_dims=1),
    ),
    "gather_nd_constant": ([ROWS], lambda x: tf.gather_nd(x, [[0, 1], [2, 3]])),
    "gather_last_valid": (
        [ROWS, spec(dtype="int32", low=0, high=5)],
        lambda x, i: tf.gather_nd(x, tf.stack([tf.range(tf.shape(x)[0]), i], axis=1)),
    ),
    "boolean_mask": ([ROWS], lambda x: tf.boolean_mask(x, x[:, :, 0] > 0)),
    "scatter_nd": (
        [X],
        lambda x: tf.scatter_nd([[0], [2], [4]], x, tf.constant([5, 4])),
    ),
    "scatter_update": (
        [ROWS],
        lambda x: tf.tensor_scatter_nd_update(x, [[0, 0]], [[9.0, 9.0, 9.0, 9.0]]),
    ),
    "sequence_mask": (
        [spec(dtype="int32", low=1, high=5)],
        lambda i: tf.sequence_mask(i, maxlen=5, dtype=tf.float32),
    ),
    "one_hot": ([IDS], lambda i: tf.one_hot(i, 4)),
    "one_hot_depth": ([IDS], lambda i: tf.one_hot(i, depth=4, dtype=tf.int32)),
    "one_hot_on_off": (
        [IDS],
        lambda i: tf.one_hot(i, 4, on_value=0.9, off_value=0.05, axis=1),
    ),
    "one_hot_of_cast": (
        [spec(1, low=0, high=4)],
        lambda x: tf.one_hot(tf.cast(x[:, 0], tf.uint8), 4),
    ),
    "where": ([X, X], lambda x, y: tf.where(x > y, x, y)),
    "where_numbers": ([X], lambda x: tf.where(x > 0, 1.0, -1.0)),
    "where_zeros": ([X], lambda x: tf.where(tf.greater(x, 0), x, tf.zeros_like(x))),
    "where_keywords": ([X, X], lambda x, y: tf.where(x < 0, x=x, y=y)),
    "where_indices": ([X], lambda x: tf.where(x > 0)),
    "fake_quant_of_halves": (
        [LARGE],
        lambda x: [
            tf.quantization.fake_quant_with_min_max_args(x, -1, 1, 4),
            tf.quantization.fake_quant_with_min_max_args(x),
        ],
    ),
    "segment_max_of_bytes": (
        [spec(4, dtype="int8", low=-9, high=10)],
        lambda x: tf.math.unsorted_segment_max(x, tf.ones_like(x[:, 0], "int32"), 3),
    ),
    "clip_by_tensor": (
        [X, X],
        lambda x, y: tf.clip_by_value(x, tf.minimum(y, 0.0), 0.5),
    ),
    "reduce_sum_bytes": ([BYTES], lambda x: tf.reduce_sum(x, axis=1)),
    "reduce_mean_bytes": ([BYTES], lambda x: tf.reduce_mean(x, axis=(1, 2))),
    "reduce_prod_bytes": ([BYTES], lambda x: tf.reduce_prod(x, 2)),
    "bitwise_number": (
        [INTS],
        lambda x: tf.bitwise.bitwise_or(tf.bitwise.bitwise_and(x, 6), 1),
    ),
    "clip_by_value": ([X], lambda x: tf.clip_by_value(x, -0.5, 0.5)),
    "clip_keywords": (
        [X],
        lambda x: tf.clip_by_value(x, clip_value_min=0.0, clip_value_max=1.0),
    ),
    "clip_by_norm": ([X], lambda x: tf.clip_by_norm(x, 1.0, axes=[1])),
}

MATHS = {
    "reduce_mean_axis": ([ROWS], lambda x: tf.reduce_mean(x, axis=1)),
    "reduce_mean_space": ([IMAGE], lambda x: tf.reduce_mean(x, [1, 2])),
    "reduce_mean_keepdims": (
        [IMAGE],
        lambda x: tf.reduce_mean(x, axis=(1, 2), keepdims=True),
    ),
    "reduce_sum_axis": ([ROWS], lambda x: tf.reduce_sum(x, -1)),
    "reduce_sum_keepdims": ([X], lambda x: tf.math.reduce_sum(x, 1, keepdims=True)),
    "reduce_max_axis": ([ROWS], lambda x: tf.reduce_max(x, axis=1)),
    "reduce_min_axis": ([ROWS], lambda x: tf.reduce_min(x, axis=[1], keepdims=True)),
    "reduce_prod_axis": ([ROWS], lambda x: tf.reduce_prod(x, axis=-1)),
    "reduce_any_axis": ([ROWS], lambda x: tf.reduce_any(x > 0.9, axis=1)),
    "reduce_all_axis": ([ROWS], lambda x: tf.reduce_all(x > -0.9, axis=[1, 2])),
    "reduce_logsumexp_axis": (
        [ROWS],
        lambda x: tf.reduce_logsumexp(x, axis=-1, keepdims=True),
    ),
    "reduce_std_axis": ([ROWS], lambda x: tf.math.reduce_std(x, axis=1)),
    "reduce_variance_axis": (
        [ROWS],
        lambda x: tf.math.reduce_variance(x, axis=[1, 2], keepdims=True),
    ),
    "count_nonzero": ([IDS], lambda i: tf.math.count_nonzero(i, axis=1)),
    "matmul_transpose_b": (
        [ROWS, spec(3, 4)],
        lambda x, y: tf.matmul(x, y, transpose_b=True),
    ),
    "matmul_transpose_a": ([ROWS, ROWS], lambda x, y: tf.matmul(x, y, True)),
    "matmul_adjoint_b": ([ROWS, ROWS], lambda x, y: tf.matmul(x, y, adjoint_b=True)),
    "matmul_keyword": ([ROWS, spec(4, 3)], lambda x, y: tf.matmul(x, b=y)),
    "matmul_constant": ([X], lambda x: tf.matmul(x, TABLE, transpose_b=True)),
    "matmul_by_constant": ([spec(4, 2)], lambda x: tf.matmul(tf.constant(TABLE), x)),
    "matvec": ([ROWS, X], lambda x, y: tf.linalg.matvec(x, y)),
    "tensordot": ([ROWS], lambda x: tf.tensordot(x, TABLE.T, axes=1)),
    "tensordot_axes": ([ROWS], lambda x: tf.tensordot(x, TABLE, axes=[[2], [1]])),
    "einsum": ([ROWS, ROWS], lambda x, y: tf.einsum("bic,bjc->bij", x, y)),
    "einsum_one": ([ROWS], lambda x: tf.einsum("bij->bji", x)),
    "einsum_constant": ([ROWS], lambda x: tf.einsum("bic,oc->bio", x, TABLE)),
    "einsum_ellipsis": ([IMAGE], lambda x: tf.einsum("...c->...", x)),
    "linalg_einsum": (
        [spec(5, 2, 3), spec(5, 2, 3)],
        lambda x, y: tf.linalg.einsum("bihd,bjhd->bhij", x, y),
    ),
    "l2_normalize": ([X], lambda x: tf.nn.l2_normalize(x, axis=1)),
    "l2_normalize_last": ([ROWS], lambda x: tf.math.l2_normalize(x, axis=-1)),
    "linalg_normalize": ([X], lambda x: tf.linalg.normalize(x, axis=1)[0]),
    "norm_axis": ([ROWS], lambda x: tf.norm(x, axis=-1)),
    "norm_1": ([ROWS], lambda x: tf.norm(x, ord=1, axis=1, keepdims=True)),
    "norm_power": ([ROWS], lambda x: tf.norm(x, 2.5, axis=1)),
    "norm_matrix_1": ([ROWS], lambda x: tf.norm(x, ord=1, axis=[-2, -1])),
    "norm_matrix_inf": (
        [IMAGE],
        lambda x: tf.norm(x, ord=np.inf, axis=(1, -1), keepdims=True),
    ),
    "norm_matrix_fro": ([ROWS], lambda x: tf.norm(x, "fro", axis=[1, 2])),
    "norm_inf": ([ROWS], lambda x: tf.linalg.norm(x, ord=np.inf, axis=-1)),
    "softmax_axis": ([ROWS], lambda x: tf.nn.softmax(x, axis=1)),
    "tf_softmax": ([ROWS], lambda x: tf.math.softmax(x, axis=-1)),
    "log_softmax_axis": ([ROWS], lambda x: tf.nn.log_softmax(x, axis=1)),
    "leaky_relu_alpha": ([X], lambda x: tf.nn.leaky_relu(x, alpha=0.1)),
    "gelu_approximate": ([X], lambda x: tf.nn.gelu(x, approximate=True)),
    "swish_beta": ([X], lambda x: tf.nn.silu(x, beta=1.5)),
    "activations_relu_options": (
        [LARGE],
        lambda x: keras.activations.relu(x, alpha=0.1, max_value=3.0, threshold=0.5),
    ),
    "activations_softmax_axis": (
        [ROWS],
        lambda x: keras.activations.softmax(x, axis=1),
    ),
    "activations_gelu_approximate": (
        [X],
        lambda x: keras.activations.gelu(x, approximate=True),
    ),
    "activations_elu_alpha": ([X], lambda x: keras.activations.elu(x, alpha=0.3)),
    "activation_by_get": ([X], lambda x: keras.activations.get("relu")(x)),
    "cumsum_axis": ([ROWS], lambda x: tf.cumsum(x, axis=1)),
    "cumsum_options": (
        [ROWS],
        lambda x: tf.cumsum(x, axis=1, exclusive=True, reverse=True),
    ),
    "cumprod_axis": ([ROWS], lambda x: tf.math.cumprod(x, axis=-1)),
    "top_k": ([X], lambda x: tf.math.top_k(x, k=2)),
    "top_k_values": ([ROWS], lambda x: tf.nn.top_k(x, 3, sorted=True)[0]),
    "top_k_indices": ([ROWS], lambda x: tf.nn.top_k(x, k=2).indices),
    "top_k_of_equals": ([IDS], lambda x: tf.math.top_k(x, k=4)),
    "in_top_k": (
        [spec(dtype="int32", low=0, high=4), X],
        lambda i, x: tf.math.in_top_k(i, x, k=2),
    ),
    "argmax_axis": ([ROWS], lambda x: tf.argmax(x, axis=-1)),
    "argmax_int32": ([ROWS], lambda x: tf.argmax(x, 1, output_type=tf.int32)),
    "argmin_axis": ([ROWS], lambda x: tf.argmin(x, axis=1)),
    "sort_descending": ([ROWS], lambda x: tf.sort(x, axis=1, direction="DESCENDING")),
    "argsort_descending_bytes": (
        [spec(8, dtype="uint8", low=0, high=3)],
        lambda x: tf.argsort(x, direction="DESCENDING", stable=True),
    ),
    "argsort_descending": (
        [ROWS],
        lambda x: tf.argsort(x, axis=-1, direction="DESCENDING"),
    ),
    "band_part": ([ROWS], lambda x: tf.linalg.band_part(x, -1, 0)),
    "set_diag": ([SQUARE, spec(3)], lambda x, y: tf.linalg.set_diag(x, y)),
    "solve": ([SQUARE, SQUARE], lambda x, y: tf.linalg.solve(x, y)),
    "cholesky": (
        [SQUARE],
        lambda x: tf.linalg.cholesky(tf.matmul(x, x, transpose_b=True) + tf.eye(3)),
    ),
    "logdet": (
        [SQUARE],
        lambda x: tf.linalg.logdet(tf.matmul(x, x, transpose_b=True) + tf.eye(3)),
    ),
    "cross": ([spec(3), spec(3)], lambda x, y: tf.linalg.cross(x, y)),
    "moments": ([ROWS], lambda x: tf.nn.moments(x, axes=[1])),
    "moments_keepdims": (
        [IMAGE],
        lambda x: tf.nn.moments(x, axes=[1, 2], keepdims=True),
    ),
    "segment_sum": (
        [spec(4, batch_size=3)],
        lambda x: tf.math.unsorted_segment_sum(x, [0, 1, 0], 2),
    ),
    "confusion_matrix": (
        [spec(dtype="int32", low=0, high=3)],
        lambda i: tf.math.confusion_matrix(i, i, num_classes=3),
    ),
    "abs_of_rfft": ([spec(16)], lambda x: tf.abs(tf.signal.rfft(x))),
    "stft": ([spec(32)], lambda x: tf.abs(tf.signal.stft(x, 16, 8))),
    "fft2d": ([SQUARE], lambda x: tf.abs(tf.signal.fft2d(tf.cast(x, tf.complex64)))),
    "dct": ([spec(8)], lambda x: tf.signal.dct(x, type=2)),
    "frame": ([spec(12)], lambda x: tf.signal.frame(x, 4, 2)),
    "log_mel": (
        [spec(32)],
        lambda x: tf.math.log(
            tf.matmul(
                tf.abs(tf.signal.stft(x, 16, 8)),
                tf.signal.linear_to_mel_weight_matrix(4, 9, 8000, 60.0, 3800.0),
            )
            + 1e-6
        ),
    ),
}

NN = {
    "conv2d": ([IMAGE], lambda x: tf.nn.conv2d(x, KERNEL, 1, "SAME")),
    "conv2d_strides": (
        [IMAGE],
        lambda x: tf.nn.conv2d(x, KERNEL, strides=[1, 2, 2, 1], padding="VALID"),
    ),
    "conv2d_dilations": (
        [IMAGE],
        lambda x: tf.nn.conv2d(x, KERNEL, 1, "SAME", dilations=2),
    ),
    "conv1d": ([spec(7, 3)], lambda x: tf.nn.conv1d(x, KERNEL[0], 1, "SAME")),
    "conv2d_transpose": (
        [spec(3, 4, 2, batch_size=3)],
        lambda x: tf.nn.conv2d_transpose(x, KERNEL, [3, 6, 8, 3], 2, "SAME"),
    ),
    "depthwise_conv2d": (
        [IMAGE],
        lambda x: tf.nn.depthwise_conv2d(x, KERNEL, [1, 1, 1, 1], "SAME"),
    ),
    "separable_conv2d": (
        [IMAGE],
        lambda x: tf.nn.separable_conv2d(
            x, KERNEL, np.ones((1, 1, 6, 2), "float32"), [1, 1, 1, 1], "SAME"
        ),
    ),
    "max_pool2d": ([IMAGE], lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID")),
    "max_pool": ([IMAGE], lambda x: tf.nn.max_pool(x, 3, strides=1, padding="SAME")),
    "max_pool_lists": (
        [IMAGE],
        lambda x: tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"),
    ),
    "avg_pool2d": ([IMAGE], lambda x: tf.nn.avg_pool2d(x, 2, 2, "SAME")),
    "avg_pool": (
        [IMAGE],
        lambda x: tf.nn.avg_pool(x, ksize=[3, 2], strides=2, padding="VALID"),
    ),
    "avg_pool1d": ([ROWS], lambda x: tf.nn.avg_pool1d(x, 2, 2, "VALID")),
    "nn_pool": (
        [IMAGE],
        lambda x: tf.nn.pool(x, [2, 2], "MAX", strides=[2, 2], padding="VALID"),
    ),
    "max_pool_argmax": (
        [IMAGE],
        lambda x: tf.nn.max_pool_with_argmax(x, 2, 2, "SAME"),
    ),
    "bias_add": ([X], lambda x: tf.nn.bias_add(x, TABLE[0])),
    "bias_add_keywords": ([X], lambda x: tf.nn.bias_add(value=x, bias=TABLE[1])),
    "depth_to_space": ([DEEP_IMAGE], lambda x: tf.nn.depth_to_space(x, 2)),
    "depth_to_space_free": (
        [spec(None, None, 12)],
        lambda x: tf.nn.depth_to_space(x, 2),
    ),
    "activation_layer": (
        [X],
        lambda x: tf.abs(layers.Dense(3, activation=layers.LeakyReLU(0.3))(x)),
    ),
    "space_to_depth": ([IMAGE], lambda x: tf.nn.space_to_depth(x, block_size=2)),
    "batch_normalization": (
        [X],
        lambda x: tf.nn.batch_normalization(
            x, TABLE[0], TABLE[1], TABLE[2], TABLE[1], 1e-3
        ),
    ),
    "local_response_normalization": (
        [DEEP_IMAGE],
        lambda x: tf.nn.local_response_normalization(x, 2, alpha=1e-2, beta=0.75),
    ),
    "nn_lrn": ([DEEP_IMAGE], lambda x: tf.nn.lrn(x)),
    "embedding_lookup": (
        [spec(5, dtype="int32", low=0, high=3)],
        lambda i: tf.nn.embedding_lookup(TABLE, i),
    ),
    "sigmoid_cross_entropy": (
        [X, spec(4, low=0)],
        lambda x, y: tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=x),
    ),
    "sparse_softmax_cross_entropy": (
        [ROWS, IDS],
        lambda x, i: tf.nn.sparse_softmax_cross_entropy_with_logits(i, x),
    ),
    "losses_sparse_categorical": (
        [IDS, spec(5, 4, low=0.1)],
        lambda i, x: keras.losses.sparse_categorical_crossentropy(i, x),
    ),
    "losses_from_logits": (
        [BOOLS, X],
        lambda y, x: keras.losses.binary_crossentropy(
            tf.cast(y, "float32"), x, from_logits=True
        ),
    ),
    "losses_object": ([X, X], lambda x, y: keras.losses.MeanSquaredError()(x, y)),
    "erosion2d": (
        [IMAGE],
        lambda x: tf.nn.erosion2d(x, KERNEL[..., 0], [1] * 4, "SAME", "NHWC", [1] * 4),
    ),
    "extract_patches": (
        [IMAGE],
        lambda x: tf.image.extract_patches(
            images=x,
            sizes=[1, 2, 2, 1],
            strides=[1, 2, 2, 1],
            rates=[1, 1, 1, 1],
            padding="VALID",
        ),
    ),
    "nn_dropout": ([X], lambda x: [x * 2, tf.nn.dropout(x, 0.5)]),
    "random_noise": (
        [X],
        lambda x: [x * 2, x + tf.random.normal(tf.shape(x), stddev=0.1)],
    ),
    "random_uniform": (
        [X],
        lambda x: [x * 2, tf.random.uniform((tf.shape(x)[0], 4), -1, 1)],
    ),
}

IMAGES = {
    "resize_v1_bicubic": (
        [IMAGE],
        lambda x: tf.compat.v1.image.resize_bicubic(x, [9, 5]),
    ),
    "resize_v1_bicubic_corners": (
        [IMAGE],
        lambda x: tf.compat.v1.image.resize_bicubic(x, [4, 13], align_corners=True),
    ),
    "resize_v1_area_corners": (
        [IMAGE],
        lambda x: tf.compat.v1.image.resize_area(x, [4, 11], align_corners=True),
    ),
    "crop_and_resize_nearest": (
        [spec(5, 5, 1)],
        lambda x: tf.image.crop_and_resize(
            x, [[0.1, 0.2, 0.9, 1.1], [1.0, 1.0, 0.0, 0.5]], [0, 0], [3, 11], "nearest"
        ),
    ),
    "resize": ([IMAGE], lambda x: tf.image.resize(x, (12, 16))),
    "resize_down": ([IMAGE], lambda x: tf.image.resize(x, [3, 5])),
    "resize_nearest": (
        [IMAGE],
        lambda x: tf.image.resize(x, (12, 16), method="nearest"),
    ),
    "resize_enum": (
        [IMAGE],
        lambda x: tf.image.resize(x, (9, 7), tf.image.ResizeMethod.NEAREST_NEIGHBOR),
    ),
    "resize_bicubic": ([IMAGE], lambda x: tf.image.resize(x, (12, 16), "bicubic")),
    "resize_area": ([IMAGE], lambda x: tf.image.resize(x, (3, 4), method="area")),
    "resize_lanczos": ([IMAGE], lambda x: tf.image.resize(x, (12, 16), "lanczos3")),
    "resize_antialias": (
        [IMAGE],
        lambda x: tf.image.resize(x, size=[3, 4], antialias=True),
    ),
    "resize_keep_ratio": (
        [IMAGE],
        lambda x: tf.image.resize(x, (12, 12), preserve_aspect_ratio=True),
    ),
    "resize_by_shape": (
        [IMAGE, FREE_IMAGE],
        lambda x, y: tf.image.resize(x, tf.shape(y)[1:3]),
    ),
    "resize_by_double": (
        [FREE_IMAGE],
        lambda x: tf.image.resize(x, [tf.shape(x)[1] * 2, tf.shape(x)[2] * 2]),
    ),
    "resize_by_static_shape": (
        [IMAGE],
        lambda x: tf.image.resize(x, (x.shape[1] * 2, x.shape[2] * 2)),
    ),
    "resize_v1_align_corners": (
        [IMAGE],
        lambda x: tf.compat.v1.image.resize_bilinear(x, (12, 16), align_corners=True),
    ),
    "resize_v1_images": (
        [IMAGE],
        lambda x: tf.compat.v1.image.resize_images(x, (12, 16)),
    ),
    "resize_v1_nearest": (
        [IMAGE],
        lambda x: tf.compat.v1.image.resize_nearest_neighbor(x, (12, 16)),
    ),
    "resize_with_pad": ([IMAGE], lambda x: tf.image.resize_with_pad(x, 10, 10)),
    "resize_with_crop": (
        [IMAGE],
        lambda x: tf.image.resize_with_crop_or_pad(x, 4, 10),
    ),
    "central_crop": ([IMAGE], lambda x: tf.image.central_crop(x, 0.5)),
    "crop_to_box": (
        [IMAGE],
        lambda x: tf.image.crop_to_bounding_box(x, 1, 2, 4, 5),
    ),
    "pad_to_box": ([IMAGE], lambda x: tf.image.pad_to_bounding_box(x, 1, 2, 9, 12)),
    "rot90_twice": ([IMAGE], lambda x: tf.image.rot90(x, k=2)),
    "adjust_brightness": ([IMAGE], lambda x: tf.image.adjust_brightness(x, 0.1)),
    "adjust_contrast": ([IMAGE], lambda x: tf.image.adjust_contrast(x, 2.0)),
    "adjust_saturation": (
        [UNIT_IMAGE],
        lambda x: tf.image.adjust_saturation(x, 1.5),
    ),
    "adjust_hue": ([UNIT_IMAGE], lambda x: tf.image.adjust_hue(x, 0.1)),
    "adjust_gamma": (
        [UNIT_IMAGE],
        lambda x: tf.image.adjust_gamma(x, gamma=2.0, gain=0.5),
    ),
    "convert_image_dtype": (
        [spec(6, 8, 3, dtype="uint8", low=0, high=256)],
        lambda x: tf.image.convert_image_dtype(x, tf.float32),
    ),
    "uint8_scaled": (
        [spec(6, 8, 3, dtype="uint8", low=0, high=256)],
        lambda x: tf.cast(x, tf.float32) / 127.5 - 1.0,
    ),
    "crop_and_resize": (
        [IMAGE],
        lambda x: tf.image.crop_and_resize(x, [[0.1, 0.2, 0.7, 0.9]], [1], [4, 4]),
    ),
    "ssim": (
        [spec(16, 16, 3, low=0), spec(16, 16, 3, low=0)],
        lambda x, y: tf.image.ssim(x, y, max_val=1.0),
    ),
    "psnr": ([UNIT_IMAGE, UNIT_IMAGE], lambda x, y: tf.image.psnr(x, y, 1.0)),
    "random_flip": (
        [IMAGE],
        lambda x: [x * 2, tf.image.random_flip_left_right(x)],
    ),
    "preprocess_caffe": (
        [PIXELS],
        lambda x: apps.imagenet_utils.preprocess_input(x, mode="caffe"),
    ),
    "preprocess_torch": (
        [PIXELS],
        lambda x: apps.imagenet_utils.preprocess_input(x, mode="torch"),
    ),
    "preprocess_by_hand": (
        [PIXELS],
        lambda x: (x / 255.0 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225],
    ),
}

BACKEND = {
    "k_mean_axis": ([ROWS], lambda x: K.mean(x, axis=1)),
    "k_mean_keepdims": ([IMAGE], lambda x: K.mean(x, axis=[1, 2], keepdims=True)),
    "k_sum": ([ROWS], lambda x: K.sum(x, axis=-1)),
    "k_sum_keepdims": ([ROWS], lambda x: K.sum(x, axis=-1, keepdims=True)),
    "k_max": ([ROWS], lambda x: K.max(x, axis=1)),
    "k_min": ([ROWS], lambda x: K.min(x, axis=1, keepdims=True)),
    "k_prod": ([ROWS], lambda x: K.prod(x, axis=1)),
    "k_std": ([ROWS], lambda x: K.std(x, axis=1)),
    "k_var": ([ROWS], lambda x: K.var(x, axis=-1)),
    "k_any": ([ROWS], lambda x: K.any(x > 0.9, axis=1)),
    "k_all": ([ROWS], lambda x: K.all(x > -0.9, axis=1)),
    "k_logsumexp": ([ROWS], lambda x: K.log(K.sum(K.exp(x), axis=1))),
    "k_argmax": ([ROWS], lambda x: K.argmax(x, axis=-1)),
    "k_argmin": ([ROWS], lambda x: K.argmin(x, axis=1)),
    "k_pow": ([X], lambda x: K.pow(x, 2)),
    "k_clip": ([X], lambda x: K.clip(x, -0.5, 0.5)),
    "k_clip_epsilon": (
        [X],
        lambda x: K.log(K.clip(x, K.epsilon(), 1.0 - K.epsilon())),
    ),
    "k_expand_dims": ([X], lambda x: K.expand_dims(x, axis=-1)),
    "k_expand_dims_1": ([X], lambda x: K.expand_dims(x, 1)),
    "k_squeeze": ([spec(1, 4)], lambda x: K.squeeze(x, axis=1)),
    "k_concatenate": ([X, X], lambda x, y: K.concatenate([x, y], axis=-1)),
    "k_stack": ([X, X], lambda x, y: K.stack([x, y], axis=1)),
    "k_reshape": ([ROWS], lambda x: K.reshape(x, (-1, 4, 5))),
    "k_reshape_int_shape": (
        [ROWS],
        lambda x: K.reshape(x, (-1, K.int_shape(x)[1] * K.int_shape(x)[2])),
    ),
    "k_reshape_shape": ([ROWS], lambda x: K.reshape(x, (K.shape(x)[0], 20))),
    "k_dot_constant": ([ROWS], lambda x: K.dot(x, K.constant(TABLE.T))),
    "k_batch_dot": ([ROWS, ROWS], lambda x, y: K.batch_dot(x, y, axes=[2, 2])),
    "k_batch_dot_axes_1": ([X, X], lambda x, y: K.batch_dot(x, y, axes=1)),
    "k_permute_dimensions": (
        [ROWS],
        lambda x: K.permute_dimensions(x, (0, 2, 1)),
    ),
    "k_repeat": ([X], lambda x: K.repeat(x, 3)),
    "k_repeat_elements": ([ROWS], lambda x: K.repeat_elements(x, 2, axis=1)),
    "k_tile": ([ROWS], lambda x: K.tile(x, (1, 2, 1))),
    "k_l2_normalize": ([X], lambda x: K.l2_normalize(x, axis=1)),
    "k_softmax": ([ROWS], lambda x: K.softmax(x)),
    "k_softmax_axis": ([ROWS], lambda x: K.softmax(x, axis=1)),
    "k_relu_options": ([LARGE], lambda x: K.relu(x, alpha=0.2, max_value=2.0)),
    "k_switch": ([X], lambda x: K.switch(x > 0, x, K.zeros_like(x))),
    "k_cast": ([INTS], lambda x: K.cast(x, "float32")),
    "k_cast_to_floatx": ([INTS], lambda x: K.cast(x, K.floatx()) * 0.5),
    "k_reverse": ([ROWS], lambda x: K.reverse(x, axes=1)),
    "k_gather": (
        [spec(5, dtype="int32", low=0, high=3)],
        lambda i: K.gather(K.constant(TABLE), i),
    ),
    "k_one_hot": ([IDS], lambda i: K.one_hot(i, 4)),
    "k_cumsum": ([ROWS], lambda x: K.cumsum(x, axis=1)),
    "k_cumprod": ([ROWS], lambda x: K.cumprod(x, axis=1)),
    "k_arange": (
        [FREE],
        lambda x: K.cast(K.arange(0, K.shape(x)[1]), "float32"),
    ),
    "k_resize_images": (
        [IMAGE],
        lambda x: K.resize_images(x, 2, 3, "channels_last"),
    ),
    "k_resize_images_bilinear": (
        [IMAGE],
        lambda x: K.resize_images(x, 2, 2, "channels_last", interpolation="bilinear"),
    ),
    "k_resize_volumes": (
        [VOLUME],
        lambda x: K.resize_volumes(x, 2, 1, 2, "channels_last"),
    ),
    "k_temporal_padding": ([ROWS], lambda x: K.temporal_padding(x, (1, 2))),
    "k_spatial_2d_padding": (
        [IMAGE],
        lambda x: K.spatial_2d_padding(x, ((1, 2), (0, 1))),
    ),
    "k_bias_add": ([X], lambda x: K.bias_add(x, K.constant(TABLE[0]))),
    "k_conv2d": (
        [IMAGE],
        lambda x: K.conv2d(x, K.constant(KERNEL), padding="same"),
    ),
    "k_depthwise_conv2d": (
        [IMAGE],
        lambda x: K.depthwise_conv2d(x, K.constant(KERNEL), padding="same"),
    ),
    "k_pool2d": ([IMAGE], lambda x: K.pool2d(x, (2, 2), (2, 2), pool_mode="avg")),
    "k_dropout": ([X], lambda x: [x * 2, K.dropout(x, 0.3)]),
    "k_random_normal": (
        [X],
        lambda x: [x * 2, K.random_normal(shape=(K.shape(x)[0], 4), mean=0.0)],
    ),
    "k_ctc_batch_cost": (
        [
            spec(2, low=0, high=3, dtype="int32"),
            spec(5, 4, low=0.1),
            spec(1, low=5, high=6, dtype="int32"),
            spec(1, low=2, high=3, dtype="int32"),
        ],
        lambda y, x, n, m: K.ctc_batch_cost(y, x, n, m),
    ),
    "k_in_train_phase": ([X], lambda x: K.in_train_phase(x * 2, x)),
    "k_sparse_categorical": (
        [IDS, spec(5, 4, low=0.1)],
        lambda i, x: K.sparse_categorical_crossentropy(i, x),
    ),
}


def vae_sampling(x):
    hidden = layers.Dense(4, activation="relu")(x)
    mean, log_var = layers.Dense(2)(hidden), layers.Dense(2)(hidden)
    noise = tf.random.normal((tf.shape(mean)[0], tf.shape(mean)[1]))
    return [mean, log_var, mean + tf.exp(0.5 * log_var) * noise]


def vae_with_losses(x):
    mean, log_var, z = vae_sampling(x)
    model = keras.Model(x, [mean, log_var, layers.Dense(4)(z)])
    model.add_loss(-0.5 * K.mean(1 + log_var - K.square(mean) - K.exp(log_var)))
    return model


def with_losses(x):
    model = keras.Model(x, layers.Dense(4)(x))
    model.add_loss(tf.reduce_mean(tf.square(model.output - x)))
    model.add_metric(K.mean(model.output), name="mean", aggregation="mean")
    return model


def attention(x):
    query, key, value = (layers.Dense(4)(x) for _ in range(3))
    scores = tf.matmul(query, key, transpose_b=True)
    scores /= tf.math.sqrt(tf.cast(tf.shape(key)[-1], scores.dtype))
    return tf.matmul(tf.nn.softmax(scores, axis=-1), value)


def multi_head(x):
    def heads(tensor):
        shape = (tf.shape(tensor)[0], -1, 2, 3)
        return tf.transpose(tf.reshape(layers.Dense(6)(tensor), shape), [0, 2, 1, 3])

    scores = tf.matmul(heads(x), heads(x), transpose_b=True) / np.sqrt(3.0)
    mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), heads(x)), [0, 2, 1, 3])
    return layers.Dense(4)(tf.reshape(mixed, (tf.shape(x)[0], -1, 6)))


def causal_attention(x):
    length = tf.shape(x)[1]
    mask = 1 - tf.linalg.band_part(tf.ones((length, length)), -1, 0)
    scores = tf.einsum("bic,bjc->bij", x, x) + mask[tf.newaxis] * -1e9
    return tf.einsum("bij,bjc->bic", tf.nn.softmax(scores), layers.Dense(4)(x))


def attention_pooling(x):
    x = layers.Dense(3)(x)
    scores = layers.Dense(1)(tf.nn.tanh(x))
    return tf.reduce_sum(tf.nn.softmax(scores, axis=1) * x, axis=1)


def padding_mask(ids):
    mask = tf.cast(tf.math.not_equal(ids, 0), tf.float32)
    return (1.0 - mask[:, tf.newaxis, tf.newaxis, :]) * -10000.0


def masked_mean(ids):
    mask = tf.cast(tf.not_equal(ids, 0), tf.float32)[..., tf.newaxis]
    embedded = layers.Embedding(4, 3)(ids)
    count = tf.maximum(tf.reduce_sum(mask, axis=1), 1.0)
    return tf.reduce_sum(embedded * mask, axis=1) / count


def positional_embedding(ids):
    positions = tf.range(start=0, limit=tf.shape(ids)[-1], delta=1)
    return layers.Embedding(4, 3)(ids) + layers.Embedding(8, 3)(positions)


def positions_of_constant(ids):
    return layers.Embedding(4, 3)(ids) + layers.Embedding(5, 3)(tf.range(5))


def sinusoids(x):
    angles = np.arange(5)[:, None] / np.power(10.0, np.arange(4) / 4)[None]
    return x * tf.math.sqrt(4.0) + tf.cast(np.sin(angles)[None], tf.float32)


def channel_shuffle(x):
    height, width, channels = x.shape[1:]
    x = tf.reshape(x, [-1, height, width, 2, channels // 2])
    x = tf.transpose(x, [0, 1, 2, 4, 3])
    return tf.reshape(x, [-1, height, width, channels])


def shift_channels(x):
    left, right, rest = tf.split(x, [1, 1, 2], axis=-1)
    left = tf.pad(left[:, :, 1:], [[0, 0], [0, 0], [0, 1], [0, 0]])
    right = tf.pad(right[:, :, :-1], [[0, 0], [0, 0], [1, 0], [0, 0]])
    return tf.concat([left, right, rest], axis=-1)


def squeeze_excite(x):
    x = layers.Conv2D(4, 1)(x)
    pooled = tf.reduce_mean(x, axis=[1, 2], keepdims=True)
    gate = layers.Conv2D(4, 1, activation="sigmoid")(layers.Conv2D(2, 1)(pooled))
    return x * gate


def spatial_attention(x):
    mean = tf.reduce_mean(x, axis=-1, keepdims=True)
    peak = tf.reduce_max(x, axis=-1, keepdims=True)
    gate = layers.Conv2D(1, 3, padding="same")(tf.concat([mean, peak], axis=-1))
    return x * tf.sigmoid(gate)


def arc_face(x):
    embedding = tf.cast(layers.Dense(3)(x), tf.float32)
    embedding = tf.nn.l2_normalize(embedding, axis=1)
    cosine = tf.matmul(embedding, tf.math.l2_normalize(TABLE[:, :3], axis=0))
    return tf.cos(tf.acos(tf.clip_by_value(cosine, -0.99, 0.99)) + 0.5) * 30.0


def siamese(left, right):
    shared = layers.Dense(3, activation="relu")
    return layers.Dense(1, activation="sigmoid")(tf.abs(shared(left) - shared(right)))


def siamese_distance(left, right):
    shared = layers.Dense(3)
    squares = K.square(shared(left) - shared(right))
    return K.sqrt(K.maximum(K.sum(squares, axis=1, keepdims=True), K.epsilon()))


def cosine(left, right):
    dot = tf.reduce_sum(tf.multiply(left, right), axis=-1)
    return dot / (tf.norm(left, axis=-1) * tf.norm(right, axis=-1) + 1e-8)


def factorization_machine(x):
    embedded = layers.Dense(3)(x)
    square_of_sum = tf.square(tf.reduce_sum(embedded, axis=1))
    sum_of_square = tf.reduce_sum(tf.square(embedded), axis=1)
    return 0.5 * (square_of_sum - sum_of_square)


def layer_norm(x):
    mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
    return (x - mean) / tf.sqrt(variance + 1e-6)


def instance_norm(x):
    mean = tf.reduce_mean(x, axis=[1, 2], keepdims=True)
    return (x - mean) * tf.math.rsqrt(tf.math.reduce_variance(x, [1, 2], True) + 1e-5)


def group_convolution(x):
    groups = tf.split(x, 2, axis=-1)
    return tf.concat([layers.Conv2D(2, 3)(group) for group in groups], axis=-1)


def coordinates(x):
    rows = tf.linspace(-1.0, 1.0, 6)[tf.newaxis, :, tf.newaxis, tf.newaxis]
    rows = tf.tile(rows, [tf.shape(x)[0], 1, 8, 1])
    return tf.concat([x, rows], axis=-1)


def yolo_boxes(x):
    xy, wh, score = tf.split(x, (2, 2, 2), axis=-1)
    grid = tf.meshgrid(tf.range(tf.shape(x)[2]), tf.range(tf.shape(x)[1]))
    grid = tf.cast(tf.stack(grid, axis=-1), tf.float32)
    xy = (tf.sigmoid(xy) + grid) / tf.cast(tf.shape(x)[1], tf.float32)
    return [tf.concat([xy - tf.exp(wh) / 2, xy + tf.exp(wh) / 2], -1), score]


def dueling(x):
    value, advantage = layers.Dense(1)(x), layers.Dense(3)(x)
    return value + (advantage - tf.reduce_mean(advantage, axis=1, keepdims=True))


def soft_argmax(x):
    heat = tf.nn.softmax(tf.reshape(x, [-1, 48, 3]), axis=1)
    place = tf.cast(tf.range(48), tf.float32)[:, None]
    return tf.reduce_sum(heat * place, axis=1)


def minibatch_deviation(x):
    deviation = tf.reduce_mean(tf.math.reduce_std(x, axis=0, keepdims=True))
    return tf.concat([x, tf.zeros_like(x[..., :1]) + deviation], axis=-1)


def generalized_mean(x):
    return tf.pow(tf.reduce_mean(tf.pow(tf.maximum(x, 1e-6), 3.0), [1, 2]), 1.0 / 3.0)


def upsample_and_add(x, y):
    up = tf.image.resize(layers.Conv2D(4, 1)(x), tf.shape(y)[1:3], method="nearest")
    return up + layers.Conv2D(4, 1)(y)


def inner_model():
    inputs = keras.Input((4,))
    return keras.Model(inputs, tf.nn.relu(layers.Dense(4)(inputs) * 2 + 1))


def inner_twice(x):
    inner = inner_model()
    return inner(inner(x) - 1) / 2


def inner_outputs(x):
    inputs = keras.Input((4,))
    hidden = layers.Dense(3)(inputs)
    left, right = keras.Model(inputs, [hidden, layers.Dense(3)(hidden)])(x)
    return layers.Dense(2)(tf.concat([left * 2, right], axis=-1))


def inner_in_sequential(x):
    return keras.Sequential([inner_model(), layers.Dense(2)])(x) + 1


def dense_relu_dense(x):
    return layers.Dense(2)(tf.nn.relu(layers.Dense(5)(x)))


def residual(x):
    hidden = layers.Dense(4, activation="relu")(x)
    return layers.Dense(2)(layers.Dense(4)(hidden) + hidden)


def softmax_in_float32(x):
    return tf.nn.softmax(tf.cast(layers.Dense(3)(x), tf.float32))


def ragged_properties(x):
    ragged = tf.RaggedTensor.from_tensor(x)
    return [ragged.values, ragged.row_splits, ragged.flat_values]


BLOCKS = {
    "vae_sampling": ([X], vae_sampling),
    "vae_with_losses": ([X], vae_with_losses),
    "add_loss_add_metric": ([X], with_losses),
    "attention": ([ROWS], attention),
    "multi_head": ([FREE], multi_head),
    "causal_attention": ([FREE], causal_attention),
    "attention_pooling": ([ROWS], attention_pooling),
    "padding_mask": ([IDS], padding_mask),
    "masked_mean": ([IDS], masked_mean),
    "positional_embedding": (
        [spec(None, dtype="int32", low=0, high=4)],
        positional_embedding,
    ),
    "positions_of_constant": ([IDS], positions_of_constant),
    "sinusoids": ([ROWS], sinusoids),
    "channel_shuffle": ([DEEP_IMAGE], channel_shuffle),
    "shift_channels": ([DEEP_IMAGE], shift_channels),
    "squeeze_excite": ([DEEP_IMAGE], squeeze_excite),
    "spatial_attention": ([DEEP_IMAGE], spatial_attention),
    "arc_face": ([X], arc_face),
    "siamese": ([X, X], siamese),
    "siamese_distance": ([X, X], siamese_distance),
    "cosine": ([X, X], cosine),
    "factorization_machine": ([ROWS], factorization_machine),
    "layer_norm": ([ROWS], layer_norm),
    "instance_norm": ([IMAGE], instance_norm),
    "group_convolution": ([DEEP_IMAGE], group_convolution),
    "coordinates": ([IMAGE], coordinates),
    "yolo_boxes": ([spec(3, 4, 6)], yolo_boxes),
    "dueling": ([X], dueling),
    "soft_argmax": ([IMAGE], soft_argmax),
    "minibatch_deviation": ([IMAGE], minibatch_deviation),
    "generalized_mean": ([UNIT_IMAGE], generalized_mean),
    "upsample_and_add": ([IMAGE, FREE_IMAGE], upsample_and_add),
    "inner_twice": ([X], inner_twice),
    "inner_outputs": ([X], inner_outputs),
    "inner_in_sequential": ([X], inner_in_sequential),
    "dense_relu_dense": ([X], dense_relu_dense),
    "residual": ([X], residual),
    "softmax_in_float32": ([X], softmax_in_float32),
    "hard_swish": ([LARGE], lambda x: x * tf.nn.relu6(x + 3.0) / 6.0),
    "mish": ([X], lambda x: x * tf.tanh(tf.nn.softplus(x))),
    "gelu_by_erf": ([X], lambda x: 0.5 * x * (1 + tf.math.erf(x / np.sqrt(2.0)))),
    "pixel_norm": (
        [IMAGE],
        lambda x: x * tf.math.rsqrt(tf.reduce_mean(x**2, -1, keepdims=True) + 1e-8),
    ),
    "pixel_shuffle": (
        [IMAGE],
        lambda x: tf.nn.depth_to_space(layers.Conv2D(12, 3, padding="same")(x), 2),
    ),
    "dense_times_number": ([X], lambda x: layers.Dense(3)(x) * 0.1),
    "scaled_pixels": (
        [PIXELS],
        lambda x: layers.Conv2D(2, 3)(x / 127.5 - 1.0),
    ),
    "embedding_scaled": ([IDS], lambda i: layers.Embedding(4, 3)(i) * 3**0.5),
    "lstm_last_step": (
        [ROWS],
        lambda x: layers.LSTM(3, return_sequences=True)(x)[:, -1],
    ),
    "batch_norm_of_sum": (
        [X, X],
        lambda x, y: layers.BatchNormalization()(x + y),
    ),
    "ragged_to_tensor": (
        [ROWS],
        lambda x: tf.RaggedTensor.from_tensor(x).to_tensor(),
    ),
    "ragged_properties": ([ROWS], ragged_properties),
    "ragged_lengths": (
        [ROWS],
        lambda x: tf.RaggedTensor.from_tensor(x).row_lengths(),
    ),
    "sparse_to_dense": (
        [X],
        lambda x: tf.sparse.to_dense(tf.sparse.from_dense(x)),
    ),
    "dtype_and_shape": (
        [X],
        lambda x: x * tf.constant(x.shape[-1], x.dtype),
    ),
    "sparse_values": ([X], lambda x: tf.sparse.from_dense(x).values),
}

for group in (OPERATORS, SHAPES, SLICES, MATHS, NN, IMAGES, BACKEND, BLOCKS):
    CASES.update(group)

# Cases written under the policy mixed_float16 too, as <case>-mixed_float16.
MIXED = [
    "attention",
    "multi_head",
    "squeeze_excite",
    "residual",
    "softmax_in_float32",
    "dense_relu_dense",
    "dense_times_number",
    "dueling",
    "scaled_pixels",
    "inner_twice",
    "siamese_distance",
    "layer_norm",
    "attention_pooling",
    "pixel_shuffle",
    "embedding_scaled",
    "arc_face",
]

# Cases with random outputs -> the number of those before them, which are recorded.
RECORDED = {
    "vae_sampling": 2,
    "vae_with_losses": 2,
    "nn_dropout": 1,
    "random_noise": 1,
    "random_uniform": 1,
    "random_flip": 1,
    "k_dropout": 1,
    "k_random_normal": 1,
}

# Releases, and the cases left out there: the function is missing, or it cannot take a
# tensor of a Keras graph (a Python `if` on it until 2.3, no dispatch since 2.4).
LEFT_OUT = [
    (
        [(2, 0)],
        "repeat repeat_each math_erfinv math_ndtri losses_huber nn_swish "
        "activations_swish einsum_constant image_flip_left_right image_flip_up_down "
        "image_rot90 image_transpose image_per_image_standardization "
        "image_image_gradients resize_with_pad resize_with_crop central_crop "
        "crop_to_box pad_to_box rot90_twice random_flip k_depthwise_conv2d "
        "efficientnet_preprocess_input",
    ),
    (
        [(2, 0), (2, 3)],
        "rank nn_zero_fraction nn_gelu nn_silu gelu_approximate activations_gelu "
        "activations_gelu_approximate losses_hinge losses_squared_hinge linalg_expm "
        "image_grayscale_to_rgb mobilenet_v3_preprocess_input eye_by_shape identity_n "
        "confusion_matrix sparse_softmax_cross_entropy losses_sparse_categorical ssim "
        "psnr k_sparse_categorical k_ctc_batch_cost",
    ),
    (
        [(2, 0), (2, 3), (2, 4)],
        "efficientnet_v2_preprocess_input convnext_preprocess_input swish_beta",
    ),
    (
        [(2, 0), (2, 3), (2, 4), (2, 10)],
        "activations_mish",
    ),
    (
        [(2, 3)],
        "captured_variable",
    ),
    (
        [(2, 4)],
        "op_and",
    ),
    (
        [(2, 4), (2, 10)],
        "math_bincount resize_v1_align_corners resize_v1_nearest",
    ),
    (
        [(2, 4), (2, 10), (2, 15)],
        "abs_of_rfft signal_rfft sparse_to_dense sparse_values",
    ),
]
