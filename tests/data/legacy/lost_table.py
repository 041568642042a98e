"""Models whose classes are lost: what `write_lost.py` writes, one function a case.

A function returns a model, built and with names that are the same in each run. Classes
are as people write them: many without `get_config`.
"""

import collections

import numpy as np
import tensorflow as tf

keras = tf.keras
layers = keras.layers
K = keras.backend
RELEASE = tuple(int(part) for part in tf.__version__.split(".")[:2])

# inputs: specifications as a structure; random: outputs that random draws change;
# trains: whether a training step has one result; kind: for the reader of a failure;
# batches: the sizes of the two batches that are recorded; h5: whether there is an H5
# file, too.
Case = collections.namedtuple(
    "Case", "make inputs kind since until random trains batches h5"
)
# shape: None for an axis of unknown length; rows: of an input that has not the number
# of rows of the others, in the two batches; is_sorted: along the rows.
Spec = collections.namedtuple("Spec", "shape dtype low high rows is_sorted")
CASES = {}


def spec(*shape, dtype="float32", low=-1.0, high=1.0, rows=None, is_sorted=False):
    return Spec(shape, dtype, low, high, rows, is_sorted)


def ids(*shape, high=6, **options):
    return spec(*shape, dtype="int32", low=0, high=high, **options)


X = spec(4)
SEQUENCE = spec(5, 4)
IMAGE = spec(6, 6, 3)
VOLUME = spec(4, 4, 4, 2)


def registering(table):
    """Return the decorator that enters cases into a table."""

    def case(
        kind,
        inputs,
        since=(2, 0),
        until=(9, 9),
        random=(),
        trains=True,
        batches=(3, 2),
        h5=False,
    ):
        settings = kind, since, until, random, trains, batches, h5

        def decorate(make):
            table[make.__name__] = Case(make, inputs, *settings)
            return make

        return decorate

    return case


case = registering(CASES)


def entry(item):
    if isinstance(item, Spec):
        return keras.Input(item.shape, dtype=item.dtype)
    if isinstance(item, dict):
        return {key: entry(value) for key, value in item.items()}
    return [entry(value) for value in item]


def functional(layer, inputs, *after):
    """Return the Functional model of `layer`, which is lost, and layers after it."""
    start = entry(inputs)
    outputs = layer(start)
    for item in after:
        outputs = item(outputs)
    return keras.Model(start, outputs)


# Layers with weights of their own.


class Affine(layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, shape):
        self.w = self.add_weight("w", (int(shape[-1]), self.units))
        self.b = self.add_weight("b", (self.units,), initializer="zeros")

    def call(self, x):
        return tf.matmul(x, self.w) + self.b


class AffineWithConfig(Affine):
    def get_config(self):
        return dict(super(Affine, self).get_config(), units=self.units)


class Projected(Affine):
    def call(self, x):
        return tf.nn.relu(tf.nn.bias_add(tf.tensordot(x, self.w, 1), self.b))


class Scale(layers.Layer):
    def build(self, shape):
        self.gamma = self.add_weight("gamma", (int(shape[-1]),), initializer="ones")
        self.beta = self.add_weight("beta", (int(shape[-1]),), initializer="zeros")

    def call(self, x):
        return x * self.gamma + self.beta


class Slope(layers.Layer):
    def build(self, shape):
        self.alpha = self.add_weight("alpha", (), initializer="ones")

    def call(self, x):
        return tf.maximum(x, 0.0) + self.alpha * tf.minimum(x, 0.0)


class InstanceNorm(layers.Layer):
    def build(self, shape):
        self.scale = self.add_weight("scale", (int(shape[-1]),), initializer="ones")
        self.offset = self.add_weight("offset", (int(shape[-1]),))

    def call(self, x):
        mean, variance = tf.nn.moments(x, axes=[1, 2], keepdims=True)
        return self.scale * ((x - mean) * tf.math.rsqrt(variance + 1e-5)) + self.offset


class Standardize(layers.Layer):
    """Weights that are not trained."""

    def build(self, shape):
        size = (int(shape[-1]),)
        self.mean = self.add_weight("mean", size, trainable=False)
        self.std = self.add_weight("std", size, "float32", "ones", trainable=False)

    def call(self, x):
        return (x - self.mean) / self.std


class BareVariable(layers.Layer):
    """Variables that `add_weight` did not make, and a constant tensor."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.w = tf.Variable(np.ones((4, 3), "float32"), name="w")
        self.fixed = tf.constant(np.arange(3, dtype="float32"))

    def call(self, x):
        return x @ self.w + self.fixed


class Tied(layers.Layer):
    def build(self, shape):
        self.w = self.add_weight("w", (int(shape[-1]), 3))

    def call(self, x):
        hidden = tf.nn.tanh(tf.matmul(x, self.w))
        return tf.matmul(hidden, self.w, transpose_b=True)


class Conv(layers.Layer):
    """Convolutions of `tf.nn` with their own kernels."""

    def __init__(self, kernel, function, **kwargs):
        super().__init__(**kwargs)
        self.kernel_shape, self.function = kernel, function

    def build(self, shape):
        self.k = self.add_weight("k", self.kernel_shape)

    def call(self, x):
        return self.function(x, self.k)


class FusedNorm(layers.Layer):
    def build(self, shape):
        size = (int(shape[-1]),)
        self.gamma = self.add_weight("gamma", size, initializer="ones")
        self.beta = self.add_weight("beta", size)
        self.mean = self.add_weight("mean", size, trainable=False)
        self.variance = self.add_weight(
            "variance", size, initializer="ones", trainable=False
        )

    def call(self, x):
        return tf.compat.v1.nn.fused_batch_norm(
            *(x, self.gamma, self.beta, self.mean, self.variance), is_training=False
        )[0]


class Lookup(layers.Layer):
    def build(self, shape):
        self.table = self.add_weight("table", (6, 3))

    def call(self, x):
        return tf.gather(self.table, x)


class LookupByNN(Lookup):
    def call(self, x):
        return tf.nn.embedding_lookup(self.table, x)


class MovingMean(layers.Layer):
    """Statistics that assignments move in training."""

    def build(self, shape):
        size = (int(shape[-1]),)
        self.mean = self.add_weight("mean", size, trainable=False)

    def call(self, x, training=None):
        if training:
            new = 0.9 * self.mean + 0.1 * tf.reduce_mean(x, 0)
            self.mean.assign(new)
        return x - self.mean


@case("own weights", X)
def affine():
    return functional(Affine(3), X)


@case("own weights", X)
def affine_with_config():
    return functional(AffineWithConfig(3), X, layers.Dense(2))


@case("own weights", SEQUENCE)
def projected():
    return functional(Projected(3), SEQUENCE)


@case("own weights", X)
def scale():
    return functional(Scale(), X, layers.Dense(2))


@case("own weights", X)
def slope():
    return functional(Slope(), X, layers.Dense(2))


@case("own weights", IMAGE)
def instance_norm():
    return functional(InstanceNorm(), IMAGE)


@case("own weights", X)
def standardize():
    return functional(Standardize(), X, layers.Dense(2))


@case("own weights", X)
def bare_variable():
    return functional(BareVariable(), X)


@case("own weights", X)
def tied():
    return functional(Tied(), X)


@case("own weights", SEQUENCE)
def own_conv1d():
    layer = Conv((3, 4, 2), lambda x, k: tf.nn.conv1d(x, k, 1, "SAME"))
    return functional(layer, SEQUENCE)


@case("own weights", IMAGE)
def own_conv2d():
    layer = Conv((3, 3, 3, 2), lambda x, k: tf.nn.conv2d(x, k, 2, "SAME"))
    return functional(layer, IMAGE)


@case("own weights", IMAGE, trains=False)
def own_conv2d_dilated():
    layer = Conv((2, 2, 3, 2), lambda x, k: tf.nn.conv2d(x, k, 1, "VALID", dilations=2))
    return functional(layer, IMAGE)


@case("own weights", VOLUME)
def own_conv3d():
    layer = Conv((2, 2, 2, 2, 3), lambda x, k: tf.nn.conv3d(x, k, [1] * 5, "SAME"))
    return functional(layer, VOLUME)


def transposed(x, k):
    shape = tf.shape(x)
    size = tf.stack([shape[0], 2 * shape[1], 2 * shape[2], 2])
    return tf.nn.conv2d_transpose(x, k, size, 2, "SAME")


@case("own weights", IMAGE)
def own_conv2d_transpose():
    return functional(Conv((3, 3, 2, 3), transposed), IMAGE)


@case("own weights", IMAGE)
def own_depthwise():
    strides = [1, 1, 1, 1]
    layer = Conv(
        (3, 3, 3, 2), lambda x, k: tf.nn.depthwise_conv2d(x, k, strides, "SAME")
    )
    return functional(layer, IMAGE)


@case("own weights", IMAGE)
def fused_norm():
    return functional(FusedNorm(), IMAGE)


@case("own weights", ids(5))
def own_lookup():
    return functional(Lookup(), ids(5))


@case("own weights", ids(5))
def own_embedding_lookup():
    return functional(LookupByNN(), ids(5))


@case("statistics moved by assignments", X)
def moving_mean():
    return functional(MovingMean(), X, layers.Dense(2))


# Layers that hold stock layers.


class Block(layers.Layer):
    """Dense layers one after another, in a list."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.steps = [layers.Dense(n, activation="relu") for n in units]

    def call(self, x):
        for step in self.steps:
            x = step(x)
        return x


class ConvBlock(layers.Layer):
    def __init__(self, filters, rate=0.0, **kwargs):
        super().__init__(**kwargs)
        self.conv = layers.Conv2D(filters, 3, padding="same", use_bias=False)
        self.bn = layers.BatchNormalization()
        self.dropout = layers.Dropout(rate) if rate else None
        self.shortcut = layers.Conv2D(filters, 1)

    def call(self, x, training=None):
        y = tf.nn.relu(self.bn(self.conv(x), training=training))
        if self.dropout:
            y = self.dropout(y, training=training)
        return y + self.shortcut(x)


class Holder(layers.Layer):
    """One stock layer, and nothing else."""

    def __init__(self, layer, **kwargs):
        super().__init__(**kwargs)
        self.inner = layer

    def call(self, x):
        return self.inner(x)


class SelfAttention(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.attend = layers.MultiHeadAttention(2, 3)
        self.norm = layers.LayerNormalization()

    def call(self, x):
        return self.norm(x + self.attend(x, x))


class Twice(layers.Layer):
    """A stock layer that is called twice."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(4, activation="tanh")

    def call(self, x):
        return self.dense(self.dense(x)) + x


class TwiceOfTwoShapes(layers.Layer):
    """A stock layer that is called with inputs of different shapes."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(3)

    def call(self, x):
        return self.dense(x[:, :2]), self.dense(x[:, 1])


class Outer(layers.Layer):
    """A lost layer within a lost layer, and weights of both."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inner = Block([3, 4])
        self.scale = Scale()

    def build(self, shape):
        self.w = self.add_weight("w", (4,))
        super().build(shape)

    def call(self, x):
        return self.scale(self.inner(x)) * self.w


class HoldsSequential(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.net = keras.Sequential([layers.Dense(3, "relu"), Scale()])
        self.named = {"a": layers.Dense(3), "b": layers.Dense(3)}

    def call(self, x):
        return self.net(x) + self.named["a"](x) * self.named["b"](x)


class Gated(layers.Layer):
    """Two inputs, two outputs."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.gate = layers.Dense(4, activation="sigmoid")

    def call(self, inputs):
        a, b = inputs
        gate = self.gate(tf.concat([a, b], axis=-1))
        return gate * a, (1.0 - gate) * b


class Pooled(layers.Layer):
    """A mean over time that obeys a mask."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, x, mask=None):
        if mask is None:
            return tf.reduce_mean(x, 1)
        mask = tf.cast(mask, x.dtype)[..., tf.newaxis]
        return tf.reduce_sum(x * mask, 1) / tf.maximum(tf.reduce_sum(mask, 1), 1.0)

    def compute_mask(self, x, mask=None):
        return None


@case("stock layers inside", X)
def dense_inside():
    return functional(Block([3, 2]), X)


@case("stock layers inside", IMAGE)
def conv_inside():
    return functional(ConvBlock(3), IMAGE, layers.GlobalAveragePooling2D())


@case("stock layers inside", IMAGE, trains=False)
def dropout_inside():
    return functional(ConvBlock(2, 0.5), IMAGE, layers.Flatten(), layers.Dense(2))


@case("stock layers inside", SEQUENCE)
def lstm_inside():
    return functional(Holder(layers.LSTM(3)), SEQUENCE)


@case("stock layers inside", SEQUENCE)
def lstm_sequences_inside():
    return functional(Holder(layers.LSTM(3, return_sequences=True)), SEQUENCE)


@case("stock layers inside", SEQUENCE)
def gru_inside():
    return functional(Holder(layers.GRU(3)), SEQUENCE)


@case("stock layers inside", SEQUENCE)
def bidirectional_inside():
    return functional(Holder(layers.Bidirectional(layers.LSTM(2))), SEQUENCE)


@case("stock layers inside", SEQUENCE)
def time_distributed_inside():
    return functional(Holder(layers.TimeDistributed(layers.Dense(2))), SEQUENCE)


@case("stock layers inside", SEQUENCE)
def layer_norm_inside():
    return functional(Holder(layers.LayerNormalization()), SEQUENCE)


@case("stock layers inside", ids(5))
def embedding_inside():
    return functional(Holder(layers.Embedding(6, 3)), ids(5))


@case("stock layers inside", SEQUENCE, since=(2, 4))
def attention_inside():
    return functional(SelfAttention(), SEQUENCE)


@case("stock layers inside", IMAGE)
def separable_inside():
    return functional(Holder(layers.SeparableConv2D(2, 3)), IMAGE)


@case("stock layers inside", IMAGE)
def transposed_inside():
    return functional(Holder(layers.Conv2DTranspose(2, 3, 2, "same")), IMAGE)


@case("stock layers inside", VOLUME)
def conv3d_inside():
    return functional(Holder(layers.Conv3D(2, 2)), VOLUME)


@case("stock layers inside", X)
def shared_inside():
    return functional(Twice(), X)


@case("stock layers inside", SEQUENCE)
def shared_inside_two_shapes():
    return functional(TwiceOfTwoShapes(), SEQUENCE)


@case("lost in lost", X)
def nested():
    return functional(Outer(), X)


@case("stock layers inside", X)
def sequential_inside():
    return functional(HoldsSequential(), X)


@case("two inputs", [X, X])
def gated():
    return functional(Gated(), [X, X])


@case("mask", ids(5))
def masked():
    inputs = keras.Input((5,), dtype="int32")
    x = layers.Embedding(6, 4, mask_zero=True)(inputs)
    return keras.Model(inputs, layers.Dense(2)(Pooled()(x)))


# Where the lost layer is.


@case("in Sequential", X)
def in_sequential():
    return keras.Sequential([keras.Input((4,)), layers.Dense(3), Scale(), Affine(2)])


@case("in a nested model", X)
def in_nested():
    inner = functional(Block([3]), X, layers.Dense(3, name="head"))
    inputs = keras.Input((4,))
    return keras.Model(inputs, layers.Dense(2)(inner(inputs)))


@case("slashes in names", X)
def slashes_in_names():
    block = keras.Sequential([layers.Dense(3, name="in/a"), Block([2], name="in/b")])
    inner = functional(Scale(name="a/b"), X, block, layers.Dense(3, name="a/b/c"))
    return compiled(functional(layers.Dense(4, name="a"), X, inner, Scale(name="x/y")))


@case("called twice", [X, X])
def shared():
    inputs, layer = entry([X, X]), Block([3])
    return keras.Model(inputs, layers.Subtract()([layer(x) for x in inputs]))


@case("called twice", [spec(5, 4), spec(3, 4)])
def shared_two_shapes():
    inputs, layer = entry([spec(5, 4), spec(3, 4)]), Projected(2)
    pooled = [layers.GlobalMaxPooling1D()(layer(x)) for x in inputs]
    return keras.Model(inputs, layers.Add()(pooled))


@case("two lost layers of a name", X)
def repeated():
    inputs = x = keras.Input((4,))
    for _ in range(3):
        x = Twice()(x)
    return keras.Model(inputs, x)


@case("time steps of any number", spec(5, 4))
def any_length():
    inputs = keras.Input((None, 4))
    return keras.Model(inputs, OwnAttention()(inputs))


# Functions of TensorFlow.


class OwnAttention(layers.Layer):
    """Attention of several heads, as in a hundred tutorials."""

    def __init__(self, heads=2, depth=2, **kwargs):
        super().__init__(**kwargs)
        self.heads, self.depth = heads, depth
        self.q, self.k, self.v = (layers.Dense(heads * depth) for _ in range(3))
        self.out = layers.Dense(4)

    def split(self, x):
        shape = (tf.shape(x)[0], -1, self.heads, self.depth)
        return tf.transpose(tf.reshape(x, shape), (0, 2, 1, 3))

    def call(self, x):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        scores = tf.matmul(q, k, transpose_b=True)
        weights = tf.nn.softmax(scores / tf.math.sqrt(tf.cast(self.depth, x.dtype)))
        y = tf.transpose(tf.matmul(weights, v), (0, 2, 1, 3))
        shape = tf.shape(x)
        y = tf.reshape(y, (shape[0], shape[1], self.heads * self.depth))
        return self.out(y)


class Ops(layers.Layer):
    """A function of tensors, with a Dense layer before it."""

    def __init__(self, function, units=4, **kwargs):
        super().__init__(**kwargs)
        self.function = function
        self.dense = layers.Dense(units)

    def call(self, x):
        return self.function(self.dense(x))


class Einsum(layers.Layer):
    def build(self, shape):
        self.w = self.add_weight("w", (int(shape[-1]), 2, 3))
        self.v = self.add_weight("v", (2, 3, 4))

    def call(self, x):
        heads = tf.einsum("btd,dhk->bthk", x, self.w)
        scores = tf.nn.softmax(tf.einsum("bthk,bshk->bhts", heads, heads))
        mixed = tf.einsum("bhts,bshk->bthk", scores, heads)
        return tf.einsum("bthk,hkd->btd", mixed, self.v)


class SqueezeExcite(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.pool = layers.GlobalAveragePooling2D()
        self.down = layers.Dense(2, activation="relu")
        self.up = layers.Dense(3, activation="sigmoid")

    def call(self, x):
        gate = self.up(self.down(self.pool(x)))
        return x * tf.reshape(gate, (-1, 1, 1, 3))


def encoding(length, depth):
    angles = np.arange(length)[:, None] / 100.0 ** (np.arange(depth)[None] / depth)
    angles[:, 0::2], angles[:, 1::2] = np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])
    return tf.cast(angles[None], tf.float32)


class Positions(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.embedding = layers.Embedding(6, 4)
        self.encoding = encoding(10, 4)

    def call(self, x):
        y = self.embedding(x) * tf.math.sqrt(4.0)
        return y + self.encoding[:, : tf.shape(x)[1], :]


class LearnedPositions(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.tokens = layers.Embedding(6, 4)
        self.positions = layers.Embedding(8, 4)

    def call(self, x):
        positions = tf.range(start=0, limit=tf.shape(x)[-1], delta=1)
        return self.tokens(x) + self.positions(positions)


class AttentionPool(layers.Layer):
    """Bahdanau's attention over time, as in a hundred notebooks."""

    def build(self, shape):
        self.w = self.add_weight("w", (int(shape[-1]), 1))
        self.b = self.add_weight("b", (int(shape[1]), 1))
        super().build(shape)

    def call(self, x):
        scores = K.softmax(K.squeeze(K.tanh(K.dot(x, self.w) + self.b), axis=-1))
        return K.sum(x * K.expand_dims(scores, axis=-1), axis=1)


class Patches(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.project = layers.Dense(4)

    def call(self, images):
        window = [1, 2, 2, 1]
        patches = tf.image.extract_patches(
            images, window, window, [1, 1, 1, 1], "VALID"
        )
        size = tf.shape(images)[0]
        return self.project(tf.reshape(patches, [size, -1, patches.shape[-1]]))


class Squash(layers.Layer):
    """Capsules."""

    def call(self, x):
        norm = tf.reduce_sum(tf.square(x), -1, keepdims=True)
        return norm / (1 + norm) * x / tf.sqrt(norm + K.epsilon())


@case("functions", SEQUENCE)
def own_attention():
    return functional(OwnAttention(), SEQUENCE)


@case("functions", SEQUENCE)
def einsum():
    return functional(Einsum(), SEQUENCE)


@case("functions", IMAGE)
def squeeze_excite():
    return functional(SqueezeExcite(), IMAGE)


@case("functions", ids(5))
def positions():
    return functional(Positions(), ids(5), layers.Dense(2))


@case("functions", ids(5))
def learned_positions():
    return functional(LearnedPositions(), ids(5))


@case("functions", SEQUENCE)
def attention_pool():
    return functional(AttentionPool(), SEQUENCE, layers.Dense(2))


@case("functions", IMAGE)
def patches():
    return functional(Patches(), IMAGE)


@case("functions", SEQUENCE)
def squash():
    return functional(Squash(), SEQUENCE, layers.Dense(2))


def gated_linear(x):
    a, b = tf.split(x, 2, axis=-1)
    return tf.concat([a * tf.sigmoid(b), tf.stack([a[:, 0], b[:, 1]], 1)], -1)


def chosen(x):
    y = tf.where(x > 0.0, x, tf.exp(x) - 1.0)
    y = tf.gather(y, [3, 0, 1], axis=-1)
    hot = tf.one_hot(tf.argmax(y, -1), 3)
    return y * hot + tf.pad(y[:, 1:], [[0, 0], [0, 1]])


@case("functions", X)
def split_concat():
    return functional(Ops(gated_linear), X)


@case("functions", X)
def where_gather_one_hot():
    return functional(Ops(chosen), X)


@case("functions", IMAGE)
def reflection_padding():
    def pad(x):
        return tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], "REFLECT")

    return functional(Ops(pad), IMAGE, layers.Conv2D(2, 3))


@case("functions", IMAGE)
def pixel_shuffle():
    return functional(Ops(lambda x: tf.nn.depth_to_space(x, 2), 8), IMAGE)


@case("functions", IMAGE)
def resized():
    return functional(Ops(lambda x: tf.image.resize(x, (9, 9)), 2), IMAGE)


@case("functions", IMAGE)
def pooled():
    def pool(x):
        y = tf.nn.max_pool2d(x, 2, 2, "SAME") + tf.nn.avg_pool2d(x, 2, 2, "SAME")
        return tf.reshape(y, (tf.shape(y)[0], -1))

    return functional(Ops(pool, 2), IMAGE)


@case("functions", SEQUENCE)
def causal_mask():
    def attend(x):
        length = tf.shape(x)[1]
        mask = 1.0 - tf.linalg.band_part(tf.ones((length, length)), -1, 0)
        scores = tf.matmul(x, x, transpose_b=True) + mask * -1e9
        return tf.matmul(tf.nn.softmax(scores), x)

    return functional(Ops(attend), SEQUENCE)


# Random draws.


class NNDropout(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(3)

    def call(self, x, training=None):
        y = self.dense(x)
        return tf.nn.dropout(y, 0.5) if training else y


class Sampling(layers.Layer):
    def call(self, inputs):
        mean, log_var = inputs
        shape = tf.shape(mean)
        noise = tf.keras.backend.random_normal((shape[0], shape[1]))
        return mean + tf.exp(0.5 * log_var) * noise


class Encoder(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.mean, self.log_var = layers.Dense(2), layers.Dense(2)
        self.sampling = Sampling()

    def call(self, x):
        mean, log_var = self.mean(x), self.log_var(x)
        return mean, log_var, self.sampling((mean, log_var))


@case("random", X, trains=False)
def nn_dropout():
    return functional(NNDropout(), X)


@case("random", X, random=(2,), trains=False)
def sampling():
    x = keras.Input((4,))
    mean, log_var = layers.Dense(2)(x), layers.Dense(2)(x)
    return keras.Model(x, [mean, log_var, Sampling()([mean, log_var])])


@case("random", X, random=(2, 3), trains=False)
def encoder():
    x = keras.Input((4,))
    mean, log_var, z = Encoder()(x)
    return keras.Model(x, [mean, log_var, z, layers.Dense(4)(z)])


class Noise(layers.Layer):
    def call(self, x, training=None):
        if training:
            x = x + tf.random.normal(tf.shape(x), stddev=0.1)
        return x


@case("random", X, trains=False)
def noise_in_training():
    return functional(Noise(), X, layers.Dense(2))


class UniformNoise(layers.Layer):
    def call(self, x):
        noise = tf.random.uniform(tf.shape(x), -0.5, 0.5)
        return x + noise + tf.random.truncated_normal(tf.shape(x), stddev=0.1)


@case("random", X, since=(2, 15), random=(0,), trains=False)
def uniform_noise():
    return functional(UniformNoise(), X)


# Complex numbers, and shapes that are computed.


class Rotation(layers.Layer):
    def build(self, shape):
        self.angles = self.add_weight("angles", (2,), initializer="ones")

    def call(self, x):
        z = tf.complex(x[:, :2], x[:, 2:])
        turn = tf.exp(tf.complex(tf.zeros_like(self.angles), self.angles))
        y = turn * z + tf.math.conj(z) / (turn + 2.0) - tf.square(z)
        parts = [tf.math.real(y), tf.math.imag(y), tf.abs(y), tf.math.angle(z)]
        return tf.concat(parts, -1)


class Spectrum(layers.Layer):
    def build(self, shape):
        self.real = self.add_weight("real", (3,), initializer="ones")
        self.imag = self.add_weight("imag", (3,), initializer="ones")

    def call(self, x):
        found = tf.signal.rfft(tf.transpose(x, [0, 2, 1])) * tf.complex(
            self.real, self.imag
        )
        y = tf.signal.irfft(found, [5])
        z = tf.signal.fft2d(tf.cast(x, tf.complex64))
        z = tf.signal.ifft(tf.signal.fft(tf.signal.ifft2d(z * 1j)))
        return tf.concat([tf.transpose(y, [0, 2, 1]), tf.math.imag(z)], -1)


class Broadcasting(layers.Layer):
    def build(self, shape):
        self.w = self.add_weight("w", (int(shape[-1]),))

    def call(self, x):
        y = tf.nn.softplus(x * self.w)
        shape = tf.broadcast_dynamic_shape(tf.shape(x), tf.shape(y))
        return tf.broadcast_to(x[:1], shape) * 0.0 + tf.fill(shape, 2.0) * y


class ShapeAlone(layers.Layer):
    """Of a sum with a weight, it takes the shape."""

    def build(self, shape):
        self.bias = self.add_weight("bias", (4,))

    def call(self, x):
        y = tf.reshape(tf.nn.bias_add(x, self.bias), [-1, 2, 2])
        return tf.reshape(x, [-1, 2, 2]) + tf.ones(tf.shape(y))


@case("shapes", X, since=(2, 15), trains=False)
def shape_alone():
    return keras.Sequential([layers.Dense(4, input_shape=(4,)), ShapeAlone()])


@case("complex", X, since=(2, 15))
def rotation():
    return functional(Rotation(), X, layers.Dense(2))


@case("complex", SEQUENCE, since=(2, 15))
def spectrum():
    return functional(Spectrum(), SEQUENCE, layers.Dense(2))


@case("shapes", X, since=(2, 15))
def broadcasting():
    return functional(Broadcasting(), X)


# Control flow, and what has no effect on numbers.


class Rounds(layers.Layer):
    """A loop of a static number of rounds."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(4, activation="tanh")

    def build(self, shape):
        self.dense.build(shape)
        super().build(shape)

    def call(self, x):
        return tf.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, self.dense(y)), (0, x)
        )[1]


class Routing(layers.Layer):
    """A loop in Python, which is unrolled as it is traced."""

    def build(self, shape):
        self.w = self.add_weight("w", (4, 4))

    def call(self, x):
        b = tf.zeros_like(x)
        for _ in range(3):
            b = b + tf.nn.softmax(b) * tf.matmul(x, self.w)
        return b


class Condition(layers.Layer):
    """A branch that a tensor chooses."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(3)

    def call(self, x):
        y = self.dense(x)
        return tf.cond(tf.reduce_sum(x) > 0.0, lambda: 2.0 * y, lambda: -y)


class Columns(layers.Layer):
    """A function of each step, by `map_fn` over a known number of them."""

    def build(self, shape):
        self.w = self.add_weight("w", (4, 3))

    def call(self, x):
        steps = tf.transpose(x, [1, 0, 2])
        both = tf.map_fn(
            lambda pair: (tf.tanh(pair[0] @ self.w), 2.0 * pair[1]),
            (steps, steps),
            dtype=(tf.float32, tf.float32),
        )
        return tf.transpose(tf.concat(both, -1), [1, 0, 2])


class Vectorized(Columns):
    """A function of each example of the batch."""

    def call(self, x):
        return tf.vectorized_map(lambda item: tf.nn.softmax(item @ self.w), x)


class ImageSpectrum(layers.Layer):
    """A filter of images in the plane of frequencies."""

    def build(self, shape):
        self.real = self.add_weight("real", (6, 4))
        self.imag = self.add_weight("imag", (6, 4))

    def call(self, x):
        x = tf.transpose(x, [0, 3, 1, 2])
        found = tf.signal.rfft2d(x) * tf.complex(self.real, self.imag)
        return tf.transpose(tf.signal.irfft2d(found), [0, 2, 3, 1])


class Scans(layers.Layer):
    """States that go on from step to step, forward and backwards."""

    def build(self, shape):
        self.w = self.add_weight("w", (4, 4))

    def call(self, x):
        steps = tf.transpose(x, [1, 0, 2])

        def step(state, item):
            return tf.tanh(state @ self.w + item)

        first = tf.zeros_like(steps[0])
        forward = tf.scan(step, steps)
        back = tf.scan(step, steps, initializer=first, reverse=True)
        folded = tf.foldl(step, steps) - tf.foldr(step, steps, first)
        return tf.transpose(tf.concat([forward, back], -1), [1, 0, 2]), folded


class Switch(layers.Layer):
    """A branch of three, by a number."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(3)

    def call(self, x):
        y = self.dense(x)
        number = tf.cast(tf.floor(tf.reduce_sum(x)), tf.int32)
        return tf.switch_case(number, [lambda: 2.0 * y, lambda: -y, lambda: y + 1.0])


class Force(layers.Layer):
    """The gradient of an energy, as in models of molecules."""

    def build(self, shape):
        self.w = self.add_weight("w", (4, 5))
        self.b = self.add_weight("b", (5,))

    def call(self, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.nn.softplus(tf.tanh(x) @ self.w + self.b)
            y = tf.nn.sigmoid(y[:, None]) * tf.nn.elu(x @ self.w)[:, None]
            energy = tf.reduce_sum(y / tf.sqrt(1.0 + tf.square(y)), [1, 2])
        return -tape.gradient(energy, x)


class Quantized(layers.Layer):
    """Quantization-aware training: weights and outputs of few bits."""

    def build(self, shape):
        self.w = self.add_weight("w", (4, 3))
        self.low = self.add_weight("low", (), trainable=False)
        self.high = self.add_weight("high", (), trainable=False)

    def call(self, x):
        quantize = tf.quantization.fake_quant_with_min_max_args
        w = quantize(self.w, -0.75, 0.75, num_bits=4)
        low, high = -1.0 - tf.abs(self.low), 1.0 + tf.abs(self.high)
        quantize = tf.quantization.fake_quant_with_min_max_vars
        return quantize(x @ w, low, high, num_bits=5)


class Loud(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(3)

    def call(self, x):
        tf.debugging.assert_less(tf.reduce_max(x), 1e6)
        tf.debugging.assert_rank(x, 2)
        y = self.dense(tf.debugging.check_numerics(x, "x"))
        tf.print("mean", tf.reduce_mean(y), output_stream="file:///dev/null")
        with tf.control_dependencies([tf.debugging.assert_all_finite(y, "y")]):
            return tf.identity(y)


class Cell(layers.Layer):
    """A cell of one's own, for keras.layers.RNN."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = self.state_size = units

    def build(self, shape):
        self.w = self.add_weight("w", (int(shape[-1]), self.units))
        self.u = self.add_weight("u", (self.units, self.units))

    def call(self, x, states):
        h = tf.nn.tanh(tf.matmul(x, self.w) + tf.matmul(states[0], self.u))
        return h, [h]

    def get_config(self):
        return dict(super().get_config(), units=self.units)


@case("control flow", X)
def while_loop():
    return functional(Rounds(), X)


@case("control flow", X)
def unrolled_loop():
    return functional(Routing(), X)


@case("control flow", SEQUENCE)
def mapped_steps():
    return functional(Columns(), SEQUENCE)


@case("control flow", SEQUENCE, since=(2, 1))
def vectorized():
    return functional(Vectorized(), SEQUENCE)


@case("complex numbers", IMAGE)
def image_spectrum():
    return functional(ImageSpectrum(), IMAGE)


@case("control flow", SEQUENCE)
def scanned_steps():
    x = keras.Input((5, 4))
    return keras.Model(x, list(Scans()(x)))


@case("control flow", X)
def switch_case():
    return functional(Switch(), X)


@case("gradients", X)
def force():
    return functional(Force(), X)


@case("gradients", X)
def quantized():
    return functional(Quantized(), X)


@case("control flow", X)
def condition():
    return functional(Condition(), X)


@case("control flow", SEQUENCE)
def own_cell():
    return functional(layers.RNN(Cell(3)), SEQUENCE)


@case("without effect", X)
def prints_and_assertions():
    return functional(Loud(), X)


# Parts of stock layers that are lost.


class ClipConstraint(keras.constraints.Constraint):
    def __init__(self, clip_value):
        self.clip_value = clip_value

    def __call__(self, weights):
        return K.clip(weights, -self.clip_value, self.clip_value)

    def get_config(self):
        return {"clip_value": self.clip_value}


class Spread(keras.initializers.Initializer):
    def __call__(self, shape, dtype=None, **kwargs):
        return tf.ones(shape, dtype)


class Smooth(keras.regularizers.Regularizer):
    def __call__(self, x):
        return 0.01 * tf.reduce_sum(tf.square(x[1:] - x[:-1]))

    def get_config(self):
        return {}


def own_swish(x):
    return x * tf.sigmoid(2.0 * x)


def own_loss(y_true, y_pred):
    return tf.reduce_mean(tf.abs(y_true - y_pred) ** 1.5, axis=-1)


class OwnMetric(keras.metrics.Metric):
    def __init__(self, name="own", **kwargs):
        super().__init__(name=name, **kwargs)
        self.total = self.add_weight("total", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.total.assign_add(tf.reduce_sum(tf.abs(y_true - y_pred)))

    def result(self):
        return self.total


@case("lost part of a stock layer", IMAGE, trains=False)
def clip_constraint():
    limit = ClipConstraint(0.01)
    inputs = keras.Input((6, 6, 3))
    x = layers.Conv2D(2, 3, kernel_constraint=limit)(inputs)
    x = layers.BatchNormalization(gamma_constraint=limit)(x)
    return keras.Model(inputs, layers.Dense(1)(layers.Flatten()(x)))


@case("lost part of a stock layer", X)
def own_initializer():
    return functional(layers.Dense(3, kernel_initializer=Spread()), X)


@case("lost part of a stock layer", X, trains=False)
def own_regularizer():
    return functional(layers.Dense(3, kernel_regularizer=Smooth()), X)


@case("lost part of a stock layer", X)
def own_activation():
    return functional(layers.Dense(3, activation=own_swish), X, layers.Dense(2))


def compiled(model, loss="mse", metrics=()):
    optimizer = keras.optimizers.Adam(0.01)
    model.compile(optimizer, loss, metrics=list(metrics))
    return model


@case("compiled", X, trains=False)
def compiled_with_own_loss():
    return compiled(functional(layers.Dense(3), X), own_loss, [OwnMetric()])


@case("compiled", X)
def compiled_adam():
    return compiled(functional(Outer(), X, layers.Dense(2)))


# Subclassed models: no config at all.


class Net(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.first = layers.Dense(4, activation="relu")
        self.norm = layers.BatchNormalization()
        self.second = layers.Dense(2)

    def call(self, x, training=None):
        return self.second(self.norm(self.first(x), training=training))


class TwoTowers(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.left, self.right = layers.Dense(3), layers.Dense(3)

    def call(self, inputs):
        a, b = inputs
        a, b = tf.nn.l2_normalize(self.left(a), -1), tf.nn.l2_normalize(self.right(b))
        return tf.reduce_sum(a * b, -1, keepdims=True)


class ByName(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.embedding, self.dense = layers.Embedding(6, 3), layers.Dense(3)

    def call(self, inputs):
        joined = self.embedding(inputs["id"])[:, 0] + self.dense(inputs["features"])
        return {"score": joined, "total": tf.reduce_sum(joined, -1)}


class Recurrent(keras.Model):
    """A mask that goes from layer to layer."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.embedding = layers.Embedding(6, 3, mask_zero=True)
        self.lstm = layers.LSTM(3)
        self.dense = layers.Dense(1)

    def call(self, x, training=False, mask=None):
        return self.dense(self.lstm(self.embedding(x)))


class EncoderPart(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.cell = layers.GRU(3, return_sequences=True, return_state=True)

    def call(self, x):
        sequence, state = self.cell(x)
        return sequence, state


class Seq2Seq(keras.Model):
    """Models within a model."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.encoder, self.head = EncoderPart(), keras.Sequential([layers.Dense(2)])
        self.w1, self.v = layers.Dense(3), layers.Dense(1)

    def call(self, x):
        sequence, state = self.encoder(x)
        scores = self.v(tf.nn.tanh(self.w1(sequence) + tf.expand_dims(state, 1)))
        weights = tf.nn.softmax(scores, axis=1)
        return self.head(tf.reduce_sum(weights * sequence, axis=1)), weights


class ConvNet(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.blocks = [ConvBlock(2), ConvBlock(3)]
        self.pool = layers.GlobalAveragePooling2D()
        self.head = layers.Dense(2, activation="softmax")

    def call(self, x, training=None):
        for block in self.blocks:
            x = block(x, training=training)
        return self.head(self.pool(x))


class Functionals(keras.Model):
    """Functional models that a subclassed one holds, as autoencoders do."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.encoder = functional(layers.Dense(2, "relu"), X)
        self.decoder = keras.Sequential([keras.Input((2,)), layers.Dense(4)])

    def call(self, x):
        return self.decoder(self.encoder(x))


@case("subclassed", X)
def subclassed():
    return Net()


@case("subclassed", [X, X])
def subclassed_list():
    return TwoTowers()


@case("subclassed", {"features": X, "id": ids(1)})
def subclassed_dict():
    return ByName()


@case("subclassed", ids(5))
def subclassed_mask():
    return Recurrent()


@case("subclassed", SEQUENCE)
def subclassed_nested():
    return Seq2Seq()


@case("subclassed", IMAGE)
def subclassed_blocks():
    return ConvNet()


@case("subclassed", X)
def subclassed_functionals():
    return Functionals()


@case("subclassed", X)
def subclassed_compiled():
    return compiled(Net())


@case("subclassed", X)
def subclassed_in_functional():
    return functional(Net(), X, layers.Dense(3))


# Lambdas.


def lambdas(function, inputs, *after):
    return functional(layers.Lambda(function), inputs, *after)


@case("Lambda", X)
def lambda_scale():
    return lambdas(lambda x: x / 127.5 - 1.0, X, layers.Dense(2))


@case("Lambda", X)
def lambda_normalize():
    return lambdas(lambda x: K.l2_normalize(x, axis=1), X, layers.Dense(2))


@case("Lambda", [X, X])
def lambda_distance():
    def distance(pair):
        a, b = pair
        return K.sqrt(K.maximum(K.sum(K.square(a - b), 1, keepdims=True), K.epsilon()))

    return lambdas(distance, [X, X], layers.Dense(1))


@case("Lambda", SEQUENCE)
def lambda_slice():
    return lambdas(lambda x: x[:, -1], SEQUENCE, layers.Dense(2))


@case("Lambda", IMAGE)
def lambda_resize():
    return lambdas(lambda x: tf.image.resize(x, (3, 3)), IMAGE, layers.Conv2D(2, 1))


@case("Lambda", X)
def lambda_one_hot():
    return lambdas(lambda x: K.one_hot(K.argmax(x), 4), X, layers.Dense(2))


# Cases that are written once more, under a policy.
MIXED = {
    "mixed_float16": "affine scale dense_inside conv_inside own_attention subclassed "
    "lstm_inside lambda_scale own_conv2d nested",
    "mixed_bfloat16": "scale dense_inside subclassed",
}
