"""Models in the manner of public examples, each with what once failed: `write_lost.py`.

What `lost_table.py` says of its functions holds here, too.
"""

import math

import numpy as np
import tensorflow as tf
from lost_table import X, entry, functional, ids, registering, spec

keras = tf.keras
layers = keras.layers
CASES = {}
MIXED = {"mixed_float16": "tied_logits", "mixed_bfloat16": "tied_logits"}
case = registering(CASES)
SEQUENCE, ANY = spec(6, 4), spec(None, 4)


# One weight in several places.


class TiedLogits(keras.Model):
    """A language model whose logits take the table of its embedding."""

    def __init__(self):
        super().__init__()
        self.embedding = layers.Embedding(7, 4)
        self.gru = layers.GRU(4, return_sequences=True)

    def call(self, tokens):
        x = self.gru(self.embedding(tokens))
        table = tf.cast(self.embedding.embeddings, x.dtype)
        return tf.matmul(x, table, transpose_b=True)


class Positions(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.tokens, self.positions = layers.Embedding(7, 4), layers.Embedding(8, 4)

    def call(self, tokens):
        return self.tokens(tokens) + self.positions(tf.range(tf.shape(tokens)[-1]))


class TiedInside(keras.Model):
    """The same; the embedding is in a lost layer."""

    def __init__(self):
        super().__init__()
        self.embedding, self.dense = Positions(), layers.Dense(4, "relu")

    def call(self, tokens):
        x = self.dense(self.embedding(tokens))
        return tf.matmul(x, self.embedding.tokens.embeddings, transpose_b=True)


class Autoencoder(keras.Model):
    """The decoder is the encoder's Dense layer, transposed."""

    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(3, "tanh")
        self.offset = self.add_weight(name="offset", shape=(4,))

    def call(self, x):
        h = self.dense(x)
        return tf.matmul(h, self.dense.kernel, transpose_b=True) + self.offset


@case("tied weights", ids(5, high=7))
def tied_logits():
    return TiedLogits()


@case("tied weights", ids(5, high=7))
def tied_in_lost_layer():
    return TiedInside()


@case("tied weights", spec(4))
def tied_autoencoder():
    return Autoencoder()


class Towers(keras.Model):
    """A Sequential that starts with an Embedding, called on one id for each example."""

    def __init__(self):
        super().__init__()
        self.user = keras.Sequential([layers.Embedding(8, 4), layers.Dense(3)])
        self.item = keras.Sequential([layers.Embedding(9, 4), layers.Dense(3)])

    def call(self, inputs):
        user, item = self.user(inputs["user"]), self.item(inputs["item"])
        return tf.reduce_sum(user * item, axis=-1)


@case("rank", {"user": ids(high=8), "item": ids(high=9)})
def two_towers():
    return Towers()


# Masks that a lost layer makes.


class Hands(layers.Layer):
    """Uses the mask of its input, and hands it on."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking, self.dense = True, layers.Dense(4)

    def call(self, x, mask=None):
        return self.dense(x) * tf.cast(mask, x.dtype)[..., tf.newaxis]


class EveryOther(layers.Layer):
    def compute_mask(self, x, mask=None):
        return None if mask is None else mask[:, ::2]

    def call(self, x):
        return x[:, ::2] * 2.0


class Emits(layers.Layer):
    """Frames of zeros are padding."""

    def compute_mask(self, x, mask=None):
        return tf.reduce_any(tf.not_equal(x, 0.0), axis=-1)

    def call(self, x):
        return tf.identity(x)


def masked(layer):
    start = entry(ids(6))
    x = layer(layers.Embedding(6, 4, mask_zero=True)(start))
    return keras.Model(start, layers.LSTM(3)(x))


@case("mask", ids(6))
def mask_handed_on():
    return masked(Hands())


@case("mask", ids(6))
def mask_of_every_other():
    return masked(EveryOther())


@case("mask", spec(5, 3, low=0, high=3, dtype="int32"))
def mask_emitted():
    start = entry(spec(5, 3, dtype="int32"))
    x = Emits()(layers.Lambda(lambda x: tf.nn.relu(tf.cast(x, "float32") - 1.0))(start))
    return keras.Model(start, [layers.LSTM(3)(x), layers.GlobalAveragePooling1D()(x)])


# Sizes.


class Chunks(layers.Layer):
    """Attention in chunks; the last one is filled up."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(4)

    def call(self, x):
        batch, length = tf.shape(x)[0], tf.shape(x)[1]
        padded = tf.pad(x, [[0, 0], [0, -length % 4], [0, 0]])
        chunks = tf.reshape(padded, [batch, -1, 4, 4])
        y = tf.matmul(tf.nn.softmax(tf.matmul(chunks, chunks, transpose_b=True)), chunks)
        return tf.reshape(self.dense(y), [batch, -1, 4])[:, :length]


class Beams(layers.Layer):
    """Three steps of a beam search of width two."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.cell, self.dense = layers.GRUCell(4), layers.Dense(4)
        self.embedding = layers.Embedding(4, 3)

    def build(self, shape):
        self.cell.build((None, 3))
        self.dense.build((None, 4))
        self.embedding.build(None)
        super().build(shape)

    def call(self, state):
        batch = tf.shape(state)[0]
        state = tf.repeat(state, 2, axis=0)
        scores = tf.tile(tf.constant([[0.0, -1e9]]), [batch, 1])
        tokens = tf.zeros([batch * 2], tf.int32)
        for _ in range(3):
            y, [state] = self.cell(self.embedding(tokens), [state])
            steps = tf.reshape(tf.nn.log_softmax(self.dense(y)), [batch, 2, 4])
            both = tf.reshape(steps + scores[..., tf.newaxis], [batch, -1])
            scores, chosen = tf.math.top_k(both, 2)
            parents = tf.range(batch)[:, tf.newaxis] * 2 + chosen // 4
            state = tf.gather(state, tf.reshape(parents, [-1]))
            tokens = tf.reshape(chosen % 4, [-1])
        return scores, tf.reshape(tokens, [batch, 2])


class NormalizedConv(layers.Layer):
    """A dilated, causal convolution whose kernel is computed."""

    def __init__(self, rate, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate

    def build(self, shape):
        self.v = self.add_weight("v", (2, shape[-1], 5))
        self.g = self.add_weight("g", (5,))

    def call(self, x):
        kernel = self.g * tf.nn.l2_normalize(self.v, axis=[0, 1])
        padded = tf.pad(x, [[0, 0], [self.rate, 0], [0, 0]])
        return tf.nn.convolution(padded, kernel, padding="VALID", dilations=[self.rate])


@case("sizes", ANY)
def chunks_any():
    return functional(Chunks(), ANY)


@case("sizes", spec(4), trains=False)
def beam_search():
    return functional(Beams(), spec(4))


@case("sizes", ANY)
def dilated_computed_kernels_any():
    return functional(NormalizedConv(2), ANY, NormalizedConv(4))


# Ops.


class ProbSparse(layers.Layer):
    """Attention of the two most telling queries; others get the mean (Informer)."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.query, self.value = layers.Dense(4), layers.Dense(4)

    def call(self, x):
        value, batch = self.value(x), tf.shape(x)[0]
        scores = tf.matmul(self.query(x), x, transpose_b=True)
        measure = tf.reduce_max(scores, -1) - tf.reduce_mean(scores, -1)
        _, top = tf.math.top_k(measure, 2)
        chosen = tf.nn.softmax(tf.gather(scores, top, batch_dims=1))
        rows = tf.tile(tf.range(batch)[:, tf.newaxis], [1, 2])
        mean = tf.tile(tf.reduce_mean(value, 1, keepdims=True), [1, 6, 1])
        at = tf.stack([rows, top], -1)
        return tf.tensor_scatter_nd_update(mean, at, tf.matmul(chosen, value))


class Spectral(layers.Layer):
    """A Fourier neural operator, with a residual in the frequencies."""

    def build(self, shape):
        self.real = self.add_weight("real", (shape[-1], 3, 2))
        self.imag = self.add_weight("imag", (shape[-1], 3, 2))

    def call(self, x):
        x = tf.transpose(x, [0, 2, 1])
        spectrum = tf.signal.rfft(x)[:, :, :2]
        weight = tf.complex(self.real, self.imag)
        y = tf.einsum("bim,iom->bom", spectrum, weight)
        y = tf.pad(y * tf.math.conj(y) + y, [[0, 0], [0, 0], [0, 3]])
        y = tf.signal.irfft(y, fft_length=[8])
        return tf.transpose(y + y[:, ::-1] + 1.0, [0, 2, 1])


class Derivatives(keras.Model):
    """The residual of a physics-informed network, by gradients."""

    def __init__(self):
        super().__init__()
        self.hidden, self.out = layers.Dense(6, "tanh"), layers.Dense(1)
        self.low, self.high = tf.constant([-1.0, 0.0]), tf.constant([1.0, 2.0])

    def field(self, x):
        x = 2.0 * (x - self.low) / (self.high - self.low) - 1.0
        return self.out(self.hidden(x))

    def call(self, inputs):
        x, t = inputs[:, :1], inputs[:, 1:]
        with tf.GradientTape() as second:
            second.watch(x)
            with tf.GradientTape() as first:
                first.watch(x)
                u = self.field(tf.concat([x, t], 1))
            slope = first.gradient(u, x)
        return u, slope, second.gradient(slope, x)


class MeanOfNeighbours(layers.Layer):
    """The mean of messages, along edges that the model has as constants."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(4, "relu")

    def call(self, inputs):
        nodes, edges = inputs
        messages = self.dense(tf.gather(nodes, edges[1]))
        size = tf.shape(nodes)[0]
        mean = tf.math.unsorted_segment_mean(messages, edges[0], num_segments=size)
        return tf.concat([nodes, mean], axis=1)


class NodeClassifier(keras.Model):
    def __init__(self):
        super().__init__()
        nodes = np.random.RandomState(0).normal(size=(5, 3)).round(2)
        self.nodes = tf.constant(nodes, tf.float32)
        edges = [0, 0, 1, 2, 3, 4], [1, 2, 3, 4, 0, 1]
        self.edges = np.array(edges, "int32")
        self.before, self.mean = layers.Dense(3), MeanOfNeighbours()
        self.out = layers.Dense(2)

    def call(self, chosen):
        x = self.mean((self.before(self.nodes), self.edges))
        return self.out(tf.gather(x, chosen))


class Bins(layers.Layer):
    """The bin of each number, and how far it is in it."""

    def build(self, shape):
        self.edges = tf.constant([-1.0, -0.4, 0.3, 1.0])
        self.table = self.add_weight("table", (5, 2))

    def call(self, x):
        found = tf.reshape(tf.searchsorted(self.edges, tf.reshape(x, [-1])), [-1, 3])
        low, high = self.edges[:-1], self.edges[1:]
        share = tf.clip_by_value((x[..., tf.newaxis] - low) / (high - low), 0.0, 1.0)
        return tf.concat([tf.gather(self.table, found), share], axis=-1)


class Process(layers.Layer):
    """The mean of a sparse Gaussian process."""

    def build(self, shape):
        self.points = self.add_weight("points", (3, shape[-1]))
        self.values = self.add_weight("values", (3, 1))

    def kernel(self, a, b):
        return tf.exp(-0.5 * tf.reduce_sum((a[:, tf.newaxis] - b) ** 2, -1))

    def call(self, x):
        prior = self.kernel(self.points, self.points) + 0.1 * tf.eye(3)
        root = tf.linalg.cholesky(prior)
        a = tf.linalg.triangular_solve(root, self.kernel(self.points, x))
        b = tf.linalg.triangular_solve(root, self.values)
        return tf.matmul(a, b, transpose_a=True)


@case("op", SEQUENCE)
def prob_sparse():
    return functional(ProbSparse(), SEQUENCE)


@case("op", spec(8, 2))
def fourier_operator():
    return functional(Spectral(), spec(8, 2))


@case("op", spec(2))
def derivatives():
    return Derivatives()


class Frames(layers.Layer):
    def call(self, x):
        return tf.signal.stft(x, 8, 4)


class Magnitude(layers.Layer):
    def call(self, z):
        return tf.math.log(tf.abs(z) + 0.1)


@case("op", spec(24))
def spectrogram():
    """Complex numbers go from one lost layer to another, in a model inside."""
    inner = keras.Sequential([keras.Input((24,)), Frames(), Magnitude()])
    return keras.Sequential([keras.Input((24,)), inner, layers.Dense(2)])


@case("op", ids(high=5))
def node_classifier():
    return NodeClassifier()


@case("op", spec(3))
def bins():
    return functional(Bins(), spec(3))


@case("op", spec(4))
def gaussian_process():
    return functional(Process(), spec(4))


@case("op", spec(4, 4, 6), h5=True)
def yolo_head():
    start = entry(spec(4, 4, 6))

    def head(x):
        size = tf.shape(x)[1:3]
        x = tf.reshape(x, [-1, size[0], size[1], 2, 6])
        center, extent, score, classes = tf.split(x, (2, 2, 1, 1), axis=-1)
        grid = tf.meshgrid(tf.range(size[1]), tf.range(size[0]))
        grid = tf.expand_dims(tf.stack(grid, axis=-1), axis=2)
        center = tf.sigmoid(center) + tf.cast(grid, tf.float32)
        center /= tf.cast(size, tf.float32)
        extent = tf.exp(extent) * np.array([[0.1, 0.2], [0.3, 0.4]], np.float32)
        boxes = tf.concat([center - extent / 2, center + extent / 2], -1)
        return boxes, tf.sigmoid(score) * tf.sigmoid(classes)

    y = layers.Lambda(head, name="head")(layers.Conv2D(12, 1)(start))
    return keras.Model(start, y)


@case("names", SEQUENCE)
def shares_and_angles():
    """Complex numbers beside real ones that are added."""

    class Rotated(layers.Layer):
        def call(self, x):
            z = tf.complex(x[..., :2], x[..., 2:]) * tf.exp(tf.complex(0.0, math.pi / 3))
            total = 0.0
            for part in (tf.math.real(z), tf.math.imag(z)):
                total += part
            return total + tf.abs(z + tf.math.conj(z) * tf.complex(0.5, 0.5))

    return functional(Rotated(), SEQUENCE, layers.Dense(2))


class Gained(layers.Layer):
    def build(self, input_shape):
        self.gain = self.add_weight("gain", (input_shape[-1],))

    def call(self, x, scale=None):
        x = x * self.gain
        return x if scale is None else x * scale


@case("calls", [X, X])
def optional_argument():
    """A layer that is called with an argument, and without it."""
    x, scale = entry([X, X])
    layer = Gained(name="gained")
    y = layers.Dense(3)(layer(x) + layer(x, scale=scale))
    return keras.Model([x, scale], y)


# What models of transformer libraries do.


class Gated(keras.Model):
    """Takes its tensors as arguments or in a dict, which has them in another order."""

    def __init__(self):
        super().__init__(name="gated")
        self.dense = layers.Dense(4)

    def call(self, x, also=None):
        if isinstance(x, dict):
            x, also = x["x"], x["also"]
        return self.dense(x) * also


@case("calls", [spec(6, 4), spec(6, 4)])
def dict_or_arguments():
    """A model that was called on a dict before: its first function takes that."""
    model = Gated()
    model({"x": tf.ones((2, 3, 4)), "also": tf.ones((2, 3, 4))})
    x, also = entry([spec(6, 4), spec(6, 4)])
    return keras.Model([x, also], layers.Dense(2)(model(x, also=also)))


class Block(layers.Layer):
    def __init__(self, number):
        super().__init__(name="block_._%d" % number)
        self.dense = layers.Dense(4, name="dense.%d" % number)

    def call(self, x):
        return self.dense(x) + x


@case("names", SEQUENCE)
def names_with_points():
    """torch has no modules with a point in their names."""
    x = start = entry(SEQUENCE)
    for number in range(2):
        x = Block(number)(x)
    return keras.Model(start, layers.Dense(2, name="head.0")(x))


class FoldedHeads(layers.Layer):
    """Attention that folds its heads into the batch, by the batch of two tensors."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.query, self.key = layers.Dense(4), layers.Dense(4)

    def call(self, x):
        rows, steps = tf.shape(x)[0], tf.shape(x)[1]

        def heads(x):
            x = tf.transpose(tf.reshape(x, (rows, -1, 2, 2)), (0, 2, 1, 3))
            return tf.reshape(x, (rows * 2, -1, 2))

        key = heads(self.key(x))
        scores = tf.matmul(heads(self.query(x)), key, transpose_b=True)
        scores = tf.reshape(scores, (rows, 2, steps, tf.shape(key)[1]))
        scores = tf.reshape(scores, (rows * 2, steps, tf.shape(key)[1]))
        scores = tf.matmul(tf.nn.softmax(scores), heads(x))
        scores = tf.transpose(tf.reshape(scores, (rows, 2, steps, 2)), (0, 2, 1, 3))
        return tf.reshape(scores, (rows, steps, 4))


@case("shapes", ANY)
def heads_in_batch_any():
    return functional(FoldedHeads(), ANY, layers.Dense(2))


class Remembers(keras.Model):
    """Returns its states, too, but in training."""

    def __init__(self):
        super().__init__()
        self.dense, self.drop = layers.Dense(4), layers.Dropout(0.5)
        self.head = layers.Dense(2)

    def call(self, x, training=False):
        h = self.dense(x)
        y = self.head(self.drop(h, training=training))
        return {"end": y} if training else {"end": y, "states": (h, 2 * h)}


@case("outputs", SEQUENCE, trains=False)
def fewer_outputs_in_training():
    return Remembers()


class HardSigmoid(layers.Layer):
    """The activation of a layer of Keras, which is then lost, too."""

    def call(self, x):
        return tf.nn.relu6(x + 3.0) / 6.0


@case("activations", X)
def lost_layer_as_activation():
    return functional(layers.Dense(5, activation=HardSigmoid()), X, layers.Dense(2))


class Padded(layers.Layer):
    """Attention whose mask is numbers, as in BERT of the TensorFlow Model Garden."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.attention = layers.MultiHeadAttention(2, 3)

    def call(self, x, words):
        words = tf.cast(words, x.dtype)[:, tf.newaxis]
        return self.attention(x, x, attention_mask=tf.ones_like(x[..., :1]) * words)


@case("masks", [SEQUENCE, ids(6)], since=(2, 4))
def mask_of_numbers():
    """The largest numbers of a row are chosen, not all that are more than 0."""
    x, words = inputs = entry([SEQUENCE, ids(6)])
    return keras.Model(inputs, layers.Dense(2)(Padded()(x, words)))


class Positions1D(layers.Layer):
    """It takes no more of its input than its length, which is known."""

    def call(self, x):
        rows = tf.range(x.shape[1], dtype=x.dtype)[:, tf.newaxis]
        return tf.sin(rows * [[0.1, 0.2, 0.3, 0.4]])


@case("shapes", SEQUENCE)
def output_of_a_layer_is_constant():
    x = entry(SEQUENCE)
    return keras.Model(x, layers.Dense(2)(x + Positions1D()(x)))


class SpectralNormalization(layers.Wrapper):
    """Keras 3 has a class of this name, with other weights, and a Dense in it."""

    def build(self, shape):
        self.layer.build(shape)
        self.w = self.layer.kernel
        self.u = self.add_weight("u", (1, 3), trainable=False)
        super().build(shape)

    def call(self, x):
        return self.layer(x) * tf.reduce_mean(self.u)


@case("names", X)
def namesake_around_a_dense():
    return functional(SpectralNormalization(layers.Dense(3)), X, layers.Dense(2))


class Grouped(layers.Conv2D):
    """The kernel tells of how many groups the channels are."""


@case("layers", spec(5, 5, 4), since=(2, 15), trains=False)
def groups_of_channels():
    return functional(Grouped(6, 3, groups=2), spec(5, 5, 4), layers.Flatten())


class Positioned(layers.Layer):
    """Adds a table to what has no length of its own: the sum has that of the table."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(4)

    def build(self, input_shape):
        self.table = self.add_weight("table", (6, 4))

    def call(self, inputs):
        x, other = inputs
        x = self.dense(tf.nn.relu(x) + self.table)
        x = tf.reshape(x, (tf.shape(other)[0], -1, 2, 2))
        return tf.reduce_sum(x, axis=(1, 2))[:, None] * other[..., :2]


@case("shapes", [SEQUENCE, ANY])
def sum_with_known_length_any():
    """Cross-attention to an encoder whose positions are a table of a known length."""
    x, other = entry([ANY, ANY])
    return keras.Model([x, other], layers.Dense(2)(Positioned()([x, other])))


class UnfoldedHeads(layers.Layer):
    """Infers the batch from heads that are folded into it."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.first, self.last = layers.Dense(4), layers.Dense(4)

    def call(self, x):
        x = self.first(x)
        x = tf.reshape(x, (tf.shape(x)[0], tf.shape(x)[1], 2, 2))
        x = tf.transpose(x, (0, 2, 1, 3))
        x = tf.reshape(x, (-1, tf.shape(x)[2], 2))
        x = tf.matmul(tf.matmul(x, x, transpose_b=True), x)
        x = tf.transpose(tf.reshape(x, (-1, 2, tf.shape(x)[1], 2)), (0, 2, 1, 3))
        return self.last(tf.reshape(x, (tf.shape(x)[0], tf.shape(x)[1], 4)))


@case("shapes", ANY)
def batch_from_heads_any():
    """Ones as long as the batch come from a tensor far before."""
    return functional(UnfoldedHeads(), ANY, layers.Dense(2))


class Turned(layers.Layer):
    """Turns queries and keys by the positions, which another tensor has."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.query, self.key = layers.Dense(4), layers.Dense(4)

    def call(self, inputs):
        x, positions = inputs
        angles = tf.cast(positions, x.dtype)[..., None]
        query = self.query(x) * tf.cos(angles)
        key = self.key(x) * tf.cos(angles)
        queries, keys = tf.shape(query)[1], tf.shape(key)[1]
        causal = tf.linalg.band_part(tf.ones((9, 9)), -1, 0)
        causal = causal[keys - queries : keys, :keys]
        scores = tf.matmul(query, key, transpose_b=True) * causal
        return tf.matmul(scores, x)


@case("shapes", [ANY, ids(None)])
def lengths_that_meet_any():
    """Sums with one more tensor have the length of both, in each place."""
    x, positions = entry([ANY, ids(None)])
    return keras.Model([x, positions], layers.Dense(2)(Turned()([x, positions])))


class WeightNorm(layers.Layer):
    """A convolution in two groups, whose kernel is computed."""

    def build(self, input_shape):
        self.direction = self.add_weight("direction", (3, 2, 6))
        self.length = self.add_weight("length", (1, 1, 6))

    def call(self, x):
        kernel = tf.nn.l2_normalize(self.direction, axis=(0, 1)) * self.length
        return tf.nn.conv1d(x, kernel, 1, "SAME")


@case("ops", SEQUENCE, trains=False)  # TensorFlow has no gradient of it on a CPU
def grouped_computed_kernel():
    return functional(WeightNorm(), SEQUENCE, layers.Dense(2))


class Mixing(layers.Layer):
    """Has a layer of its own name, which it calls on an image made of a sequence."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.conv = layers.Conv2D(4, 3, padding="same", name="mixing")

    def call(self, x):
        x = tf.reshape(tf.transpose(x, (0, 2, 1)), (-1, 4, 2, 3))
        x = self.conv(tf.transpose(x, (0, 2, 3, 1)))
        return tf.reshape(x, (-1, 6, 4))


class Around(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.mixing, self.dense = Mixing(name="mixing"), layers.Dense(4)

    def call(self, x):
        return self.dense(x) + self.mixing(x)


@case("names", spec(6, 4))
def name_of_the_layer_inside():
    return functional(Around(), spec(6, 4), layers.Dense(2))


class Padded(layers.Layer):
    """Pads an image if it is too small: one branch has another shape."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.conv = layers.Conv2D(3, 2)

    def call(self, x):
        x = self.conv(x)
        is_odd = tf.math.floormod(tf.shape(x)[1], 2) > 0
        larger = tf.pad(x, ((0, 0), (0, 1), (0, 1), (0, 0)))
        x = tf.cond(is_odd, lambda: larger, lambda: x)
        return tf.reshape(x, (-1, 4, 4, 3)) * 2.0


@case("conditions", spec(4, 4, 2))
def condition_of_a_known_size():
    return functional(Padded(), spec(4, 4, 2), layers.Dense(2))


class Spectrum(layers.Layer):
    """Reads the shape of complex numbers."""

    def call(self, x):
        z = tf.signal.rfft(tf.transpose(x, (0, 2, 1)))
        rows = tf.shape(z)[0]
        return tf.abs(tf.reshape(z, (rows, 16)))


@case("ops", SEQUENCE)
def shape_of_complex_numbers():
    return functional(Spectrum(), SEQUENCE, layers.Dense(2))


class MultiHeadAttention(layers.Layer):
    """Has the name of one of Keras, and reads its mask."""

    def __init__(self, head_num, **kwargs):
        super().__init__(**kwargs)
        self.head_num, self.supports_masking = head_num, True
        self.dense = layers.Dense(4)

    def get_config(self):
        return dict(super().get_config(), head_num=self.head_num)

    def call(self, x, mask=None):
        scores = tf.matmul(self.dense(x), x, transpose_b=True)
        if mask is not None:
            scores -= 9.0 * (1 - tf.cast(mask, x.dtype)[:, None])
        return tf.matmul(tf.nn.softmax(scores), x)


class Marked(layers.Layer):
    def compute_mask(self, tokens, mask=None):
        return tf.not_equal(tokens, 0)

    def call(self, tokens):
        return tf.one_hot(tf.cast(tokens, "int32"), 6)


def gelu(x):
    """The usual approximation, under the name of Keras's function."""
    return 0.5 * x * (1 + tf.tanh(0.8 * x * (1 + 0.1 * x * x)))


@case("masks", ids(6))
def namesakes_and_masks():
    """Of its layers, none is that of Keras: one by its config, one by its numbers."""
    tokens = entry(ids(6))
    x = layers.Dense(4, name="embedding")(Marked()(tokens))
    x = MultiHeadAttention(2)(x)
    x = layers.Dense(4, activation=gelu)(x)
    return keras.Model(tokens, layers.Dense(2)(x))


class Scales(layers.Layer):
    def build(self, input_shape):
        self.scale = self.add_weight("scale", (4,))

    def call(self, x):
        return x * self.scale


class Hidden(layers.Layer):
    """Gives a weight the name of the layer that is its attribute."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.shift = Scales()

    def build(self, input_shape):
        self.offset = self.add_weight("shift", (4,))
        self.shift.build(input_shape)

    def call(self, x):
        return x * self.shift.scale + self.offset


@case("own weights", X)
def weight_that_no_attribute_leads_to():
    return functional(Hidden(), X, layers.Dense(2))
