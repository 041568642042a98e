"""Models in the manner of the examples of keras.io and tensorflow.org: `write_lost.py`.

Their functions compute on sizes and constants: masks, positions, grids, segments. What
`lost_table.py` says of its functions holds here, too. Of most there are two: a case of
known length, and one of any length, whose name ends in `_any`.
"""

import functools
import math

import numpy as np
import tensorflow as tf
from lost_table import entry, functional, ids, registering, spec

keras = tf.keras
layers = keras.layers
K = keras.backend
CASES = {}
case = registering(CASES)


def lengths(kind, inputs, **options):
    """Enter two cases; the one of any length is trained, too.

    `inputs` maps a length, a number or None, to specifications.
    """

    def decorate(make):
        for suffix, known in ("", inputs(5)), ("_any", inputs(None)):
            one = functools.partial(make, known)
            one.__name__ = make.__name__ + suffix
            case(kind, known, trains=bool(suffix), **options)(one)
        return make

    return decorate


def sequences(length):
    return spec(length, 4)


def images(length):
    return spec(length if length is None else 6, length, 3)


def size(x, axis):
    """Return the length of an axis, a number where it is known."""
    known = x.shape[axis]
    return tf.shape(x)[axis] if known is None else known


# Masks.


def by_range(scores):
    """The mask of keras.io's mini GPT."""
    batch, rows, columns = tf.shape(scores)[0], size(scores, 1), size(scores, 2)
    i = tf.range(rows)[:, None]
    j = tf.range(columns)
    mask = tf.cast(i >= j - columns + rows, scores.dtype)
    mask = tf.reshape(mask, [1, rows, columns])
    multiples = tf.concat(
        [tf.expand_dims(batch, -1), tf.constant([1, 1], dtype=tf.int32)], 0
    )
    return scores + (1.0 - tf.tile(mask, multiples)) * -1e9


def by_where(scores):
    steps = tf.range(size(scores, -1))
    return tf.where(steps[:, None] >= steps, scores, -1e9 * tf.ones_like(scores))


def by_band_part(scores):
    length = size(scores, -1)
    look_ahead = 1 - tf.linalg.band_part(tf.ones((length, length)), -1, 0)
    return scores + look_ahead * -1e9


def by_sequence_mask(scores):
    length = size(scores, -1)
    mask = tf.sequence_mask(tf.range(1, length + 1), length)
    return scores + tf.where(mask, 0.0, -1e9)


def by_gpt2(w):
    """The mask of OpenAI's GPT-2."""
    rows, columns = size(w, -2), size(w, -1)
    i = tf.range(rows)[:, None]
    j = tf.range(columns)
    b = tf.cast(i >= j - columns + rows, w.dtype)
    b = tf.reshape(b, [1, rows, columns])
    return w * b - tf.cast(1e10, w.dtype) * (1 - b)


class CausalAttention(layers.Layer):
    """Attention of one head, whose scores a function changes."""

    def __init__(self, change, **kwargs):
        super().__init__(**kwargs)
        self.change = change
        self.qkv, self.out = layers.Dense(12), layers.Dense(4)

    def call(self, x):
        q, k, v = tf.split(self.qkv(x), 3, axis=-1)
        scores = tf.matmul(q, k, transpose_b=True) / math.sqrt(4.0)
        return self.out(tf.matmul(tf.nn.softmax(self.change(scores)), v))


def causal(change):
    def make(item):
        return functional(CausalAttention(change), item, layers.Dense(2))

    make.__name__ = "causal_" + change.__name__
    lengths("causal mask", sequences)(make)


for change in by_range, by_where, by_band_part, by_sequence_mask, by_gpt2:
    causal(change)


class DecoderMasks(layers.Layer):
    """The masks of the Transformer for translation, as tensorflow.org has them."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.embedding, self.out = layers.Embedding(6, 4), layers.Dense(2)

    def call(self, tokens):
        padding = tf.cast(tf.math.equal(tokens, 0), tf.float32)
        padding = padding[:, tf.newaxis, :]
        length = tf.shape(tokens)[1]
        ahead = 1 - tf.linalg.band_part(tf.ones((length, length)), -1, 0)
        mask = tf.maximum(padding, ahead)
        x = self.embedding(tokens)
        scores = tf.matmul(x, x, transpose_b=True)
        scores /= tf.math.sqrt(tf.cast(tf.shape(x)[-1], tf.float32))
        return self.out(tf.matmul(tf.nn.softmax(scores + mask * -1e9), x))


@case("causal mask", ids(None))
def decoder_masks_any(item=ids(None)):
    return functional(DecoderMasks(), item)


# Positions.


class Heads(layers.Layer):
    """Attention of two heads, with a bias of scores."""

    def __init__(self, bias, **kwargs):
        super().__init__(**kwargs)
        self.bias = bias
        self.q, self.k, self.v = (layers.Dense(4) for _ in range(3))
        self.out = layers.Dense(4)

    def split(self, x):
        return tf.transpose(tf.reshape(x, (-1, size(x, 1), 2, 2)), (0, 2, 1, 3))

    def call(self, x):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        scores = tf.matmul(q, k, transpose_b=True)
        scores += self.bias(size(x, 1))
        y = tf.transpose(tf.matmul(tf.nn.softmax(scores), v), (0, 2, 1, 3))
        return self.out(tf.reshape(y, (-1, size(x, 1), 4)))


def alibi(length):
    positions = tf.range(length)
    distance = tf.cast(positions[None, :] - positions[:, None], tf.float32)
    slopes = tf.constant([0.5, 0.25])
    return slopes[:, tf.newaxis, tf.newaxis] * -tf.abs(distance)


class Relative(layers.Layer):
    """The relative positions of T5, as Hugging Face computes them."""

    buckets, longest = 8, 16

    def build(self, shape):
        self.table = self.add_weight("table", (self.buckets, 2))

    def bucket(self, relative):
        buckets = self.buckets // 2
        found = tf.cast(tf.math.greater(relative, 0), relative.dtype) * buckets
        relative = tf.math.abs(relative)
        exact = buckets // 2
        is_small = tf.math.less(relative, exact)
        far = exact + tf.cast(
            tf.math.log(tf.cast(tf.maximum(relative, 1), tf.float32) / exact)
            / math.log(self.longest / exact)
            * (buckets - exact),
            relative.dtype,
        )
        far = tf.math.minimum(far, buckets - 1)
        return found + tf.where(is_small, relative, far)

    def call(self, x):
        length = size(x, 1)
        context, memory = tf.range(length)[:, None], tf.range(length)[None, :]
        values = tf.gather(self.table, self.bucket(memory - context))
        bias = tf.expand_dims(tf.transpose(values, [2, 0, 1]), axis=0)
        scores = tf.expand_dims(tf.matmul(x, x, transpose_b=True), 1) + bias
        return tf.matmul(tf.nn.softmax(scores)[:, 0] + tf.nn.softmax(scores)[:, 1], x)


class ClippedRelative(layers.Layer):
    """Learned embeddings of distances, which are clipped (Shaw et al.)."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.embedding = layers.Embedding(5, 4)

    def call(self, x):
        steps = tf.range(size(x, 1))
        distance = tf.clip_by_value(steps[None, :] - steps[:, None], -2, 2) + 2
        keys = self.embedding(distance)
        scores = tf.matmul(x, x, transpose_b=True)
        scores += tf.einsum("btd,tsd->bts", x, keys)
        return tf.matmul(tf.nn.softmax(scores), x)


class Skewed(layers.Layer):
    """The relative positions of the Music Transformer and Transformer-XL."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.key = layers.Dense(4)

    def call(self, x):
        length = size(x, 1)
        relative = tf.matmul(x, self.key(x), transpose_b=True)
        padded = tf.pad(relative, [[0, 0], [0, 0], [1, 0]])
        turned = tf.reshape(padded, [-1, length + 1, length])
        return tf.matmul(tf.nn.softmax(turned[:, 1:, :]), x)


class Sines(layers.Layer):
    """Sinusoidal positions, as KerasNLP has them."""

    def call(self, x):
        length, width = size(x, 1), x.shape[-1]
        position = tf.cast(tf.range(length), "float32")
        power = tf.cast(2 * (tf.range(width) // 2), "float32") / tf.cast(
            width, "float32"
        )
        timescales = tf.pow(1 / 1e4, power)
        angles = tf.expand_dims(position, 1) * tf.expand_dims(timescales, 0)
        is_cosine = tf.cast(tf.range(width) % 2, "float32")
        encoded = tf.sin(angles) * (1 - is_cosine) + tf.cos(angles) * is_cosine
        return x + tf.broadcast_to(encoded, tf.shape(x))


class JoinedSines(layers.Layer):
    """Sinusoidal positions of sines, then cosines, of constants alone."""

    def call(self, x):
        depth = 4 / 2
        positions = np.arange(16)[:, np.newaxis]
        rates = 1 / (10000 ** (np.arange(depth)[np.newaxis, :] / depth))
        angles = tf.cast(positions * rates, tf.float32)
        table = tf.concat([tf.sin(angles), tf.cos(angles)], axis=-1)
        x *= tf.math.sqrt(tf.cast(x.shape[-1], tf.float32))
        return x + table[tf.newaxis, : size(x, 1), :]


class TimeEmbedding(layers.Layer):
    """The embedding of a noise variance in a diffusion model."""

    def call(self, x):
        rates = tf.exp(tf.linspace(tf.math.log(1.0), tf.math.log(1000.0), 3))
        angles = 2.0 * math.pi * rates / 1000.0 * x
        return tf.concat([tf.sin(angles), tf.cos(angles)], axis=-1)


class PatchEncoder(layers.Layer):
    """The positions of a Vision Transformer, whose number is known."""

    def __init__(self, patches, **kwargs):
        super().__init__(**kwargs)
        self.patches = patches
        self.projection = layers.Dense(4)
        self.position_embedding = layers.Embedding(patches, 4)

    def call(self, patch):
        positions = tf.range(start=0, limit=self.patches, delta=1)
        return self.projection(patch) + self.position_embedding(positions)


@lengths("positions", sequences)
def alibi_bias(item):
    return functional(Heads(alibi), item)


@lengths("positions", sequences)
def t5_bias(item):
    return functional(Relative(), item)


@lengths("positions", sequences)
def clipped_relative(item):
    return functional(ClippedRelative(), item)


@case("positions", sequences(None))
def skewed_any(item=sequences(None)):
    return functional(Skewed(), item)


@lengths("positions", sequences)
def sines(item):
    return functional(Sines(), item, layers.Dense(2))


@lengths("positions", sequences)
def joined_sines(item):
    return functional(JoinedSines(), item, layers.Dense(2))


@case("positions", spec(1, 1, 1))
def time_embedding():
    return functional(TimeEmbedding(), spec(1, 1, 1), layers.Dense(2))


@case("positions", spec(5, 3))
def patch_encoder():
    return functional(PatchEncoder(5), spec(5, 3))


def partition(x, window):
    _, height, width, channels = x.shape
    x = tf.reshape(x, (-1, height // window, window, width // window, window, channels))
    x = tf.transpose(x, (0, 1, 3, 2, 4, 5))
    return tf.reshape(x, (-1, window * window, channels))


def joined(windows, window, height, width, channels):
    x = tf.reshape(
        windows, (-1, height // window, width // window, window, window, channels)
    )
    return tf.reshape(
        tf.transpose(x, (0, 1, 3, 2, 4, 5)), (-1, height, width, channels)
    )


class ShiftedWindows(layers.Layer):
    """A block of the Swin Transformer."""

    def build(self, shape):
        self.qkv = layers.Dense(9)
        self.table = self.add_weight("table", (9, 1))
        steps = np.stack(np.meshgrid(range(2), range(2), indexing="ij")).reshape(2, -1)
        relative = (steps[:, :, None] - steps[:, None, :]).transpose(1, 2, 0) + 1
        self.index = tf.Variable(
            relative[..., 0] * 3 + relative[..., 1], trainable=False, name="index"
        )
        regions = np.zeros((1, 4, 4, 1), "float32")
        regions[:, 2:3], regions[:, 3:], regions[:, :, 3:] = 1, 2, 4
        regions = tf.reshape(partition(tf.constant(regions), 2), (-1, 4))
        mask = tf.expand_dims(regions, 1) - tf.expand_dims(regions, 2)
        mask = tf.where(mask != 0, -100.0, mask)
        self.mask = tf.Variable(
            tf.where(mask == 0, 0.0, mask), trainable=False, name="region_mask"
        )

    def call(self, x):
        windows = partition(tf.roll(x, shift=[-1, -1], axis=[1, 2]), 2)
        q, k, v = tf.split(self.qkv(windows), 3, axis=-1)
        scores = tf.matmul(q, tf.transpose(k, (0, 2, 1)))
        bias = tf.gather(self.table, tf.reshape(self.index, (-1,)))
        scores += tf.transpose(tf.reshape(bias, (4, 4, -1)), (2, 0, 1))
        count = self.mask.shape[0]
        mask = tf.cast(tf.expand_dims(self.mask, 0), tf.float32)
        scores = tf.reshape(scores, (-1, count, 4, 4)) + mask
        scores = tf.nn.softmax(tf.reshape(scores, (-1, 4, 4)))
        y = joined(tf.matmul(scores, v), 2, 4, 4, 3)
        return tf.roll(y, shift=[1, 1], axis=[1, 2])


@case("positions", spec(4, 4, 3), trains=False)
def shifted_windows():
    return functional(ShiftedWindows(), spec(4, 4, 3))


# Grids.


class Anchors(layers.Layer):
    """The boxes of RetinaNet, of one level."""

    def __init__(self, stride=2, **kwargs):
        super().__init__(**kwargs)
        self.stride = stride
        self.sizes = tf.constant([[2.0, 3.0], [4.0, 1.5]])
        self.head = layers.Conv2D(8, 3, stride, padding="same")

    def anchors(self, height, width):
        rx = tf.range(width, dtype=tf.float32) + 0.5
        ry = tf.range(height, dtype=tf.float32) + 0.5
        centers = tf.stack(tf.meshgrid(rx, ry), axis=-1) * self.stride
        centers = tf.expand_dims(centers, axis=-2)
        centers = tf.tile(centers, [1, 1, 2, 1])
        sizes = tf.tile(self.sizes[None, None], [height, width, 1, 1])
        return tf.reshape(tf.concat([centers, sizes], axis=-1), [height * width * 2, 4])

    def call(self, images):
        found = self.head(images)
        boxes = self.anchors(size(found, 1), size(found, 2))[None, ...]
        found = tf.reshape(found, (tf.shape(images)[0], -1, 4))
        return tf.concat(
            [
                found[:, :, :2] * boxes[:, :, 2:] + boxes[:, :, :2],
                tf.math.exp(found[:, :, 2:]) * boxes[:, :, 2:],
            ],
            axis=-1,
        )


@lengths("grids", images)
def anchors(item):
    return functional(Anchors(), item)


class CeiledAnchors(Anchors):
    """The size of a level is computed from that of the image, in float32."""

    def call(self, images):
        shape = tf.cast(tf.shape(images), dtype=tf.float32)
        height, width = (
            tf.cast(tf.math.ceil(shape[i] / 2**1), tf.int32) for i in (1, 2)
        )
        found = tf.reshape(self.head(images), (tf.shape(images)[0], -1, 4))
        return found + self.anchors(height, width)[None, ...]


@lengths("grids", images)
def ceiled_anchors(item):
    return functional(CeiledAnchors(), item)


class Boxes(layers.Layer):
    """The grid of YOLO: x and y of a cell, added to what is predicted."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.head = layers.Conv2D(5, 1)

    def call(self, x):
        found = self.head(x)
        height, width = size(found, 1), size(found, 2)
        found = tf.reshape(found, (-1, height, width, 1, 5))
        xy, wh, objectness = tf.split(found, (2, 2, 1), axis=-1)
        grid = tf.meshgrid(tf.range(width), tf.range(height))
        grid = tf.expand_dims(tf.stack(grid, axis=-1), axis=2)
        xy = tf.sigmoid(xy) + tf.cast(grid, tf.float32)
        xy /= tf.cast(tf.stack([width, height]), tf.float32)
        wh = tf.exp(wh) * [[0.1, 0.2]]
        return tf.concat([xy - wh / 2, xy + wh / 2, tf.sigmoid(objectness)], axis=-1)


@lengths("grids", images)
def yolo_grid(item):
    return functional(Boxes(), item)


class Coordinates(layers.Layer):
    """CoordConv: two channels, from -1 to 1."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.conv = layers.Conv2D(2, 1)

    def call(self, x):
        batch, rows, columns = tf.shape(x)[0], size(x, 1), size(x, 2)
        xx = tf.tile(tf.range(columns)[None, None, :, None], [batch, rows, 1, 1])
        yy = tf.tile(tf.range(rows)[None, :, None, None], [batch, 1, columns, 1])
        xx = tf.cast(xx, tf.float32) / tf.cast(columns - 1, tf.float32) * 2.0 - 1.0
        yy = tf.cast(yy, tf.float32) / tf.cast(rows - 1, tf.float32) * 2.0 - 1.0
        return self.conv(tf.concat([x, xx, yy], axis=-1))


@case("grids", images(None))
def coordinates_any(item=images(None)):
    return functional(Coordinates(), item)


class SpatialTransformer(layers.Layer):
    """An image, sampled at an affine grid."""

    def grid(self, theta, height, width):
        batch = tf.shape(theta)[0]
        x = tf.linspace(-1.0, 1.0, width)
        y = tf.linspace(-1.0, 1.0, height)
        x, y = tf.meshgrid(x, y)
        x, y = tf.reshape(x, [-1]), tf.reshape(y, [-1])
        points = tf.stack([x, y, tf.ones_like(x)])
        points = tf.tile(tf.expand_dims(points, axis=0), tf.stack([batch, 1, 1]))
        found = tf.matmul(tf.reshape(theta, (-1, 2, 3)), points)
        found = tf.reshape(found, [batch, 2, height, width])
        return found[:, 0], found[:, 1]

    def pixels(self, image, x, y):
        batch, height, width = tf.shape(x)[0], tf.shape(x)[1], tf.shape(x)[2]
        rows = tf.reshape(tf.range(0, batch), (batch, 1, 1))
        rows = tf.tile(rows, (1, height, width))
        return tf.gather_nd(image, tf.stack([rows, y, x], 3))

    def call(self, inputs):
        image, theta = inputs
        height, width = size(image, 1), size(image, 2)
        x, y = self.grid(theta, height, width)
        last_x, last_y = tf.cast(width - 1, "int32"), tf.cast(height - 1, "int32")
        x = 0.5 * (x + 1.0) * tf.cast(last_x, "float32")
        y = 0.5 * (y + 1.0) * tf.cast(last_y, "float32")
        x0, y0 = tf.cast(tf.floor(x), "int32"), tf.cast(tf.floor(y), "int32")
        x1, y1 = x0 + 1, y0 + 1
        x0, x1 = (tf.clip_by_value(i, 0, last_x) for i in (x0, x1))
        y0, y1 = (tf.clip_by_value(i, 0, last_y) for i in (y0, y1))
        corners = [self.pixels(image, i, j) for i in (x0, x1) for j in (y0, y1)]
        x0, x1, y0, y1 = (tf.cast(i, "float32") for i in (x0, x1, y0, y1))
        shares = [(x1 - x) * (y1 - y), (x1 - x) * (y - y0)]
        shares += [(x - x0) * (y1 - y), (x - x0) * (y - y0)]
        return tf.add_n([tf.expand_dims(s, 3) * c for s, c in zip(shares, corners)])


@lengths("grids", lambda length: [images(length), spec(6)])
def spatial_transformer(items):
    image, numbers = entry(items)
    theta = layers.Dense(6)(numbers)
    return keras.Model(
        [image, numbers], layers.Dense(2)(SpatialTransformer()([image, theta]))
    )


class Rays(layers.Layer):
    """NeRF: points along rays, and the colour that is seen."""

    def __init__(self, samples=4, **kwargs):
        super().__init__(**kwargs)
        self.samples = samples
        self.field = layers.Dense(4)

    def encode(self, x):
        found = [x]
        for i in range(2):
            found += [function(2.0**i * x) for function in (tf.sin, tf.cos)]
        return tf.concat(found, axis=-1)

    def call(self, inputs):
        origins, directions = inputs
        t = tf.linspace(2.0, 6.0, self.samples)
        points = origins[..., None, :] + directions[..., None, :] * t[..., None]
        flat = tf.reshape(points, [-1, 3])
        found = self.field(self.encode(flat))
        found = tf.reshape(found, (tf.shape(origins)[0], -1, self.samples, 4))
        rgb, sigma = tf.sigmoid(found[..., :-1]), tf.nn.relu(found[..., -1])
        delta = t[1:] - t[:-1]
        delta = tf.concat([delta, tf.broadcast_to([1e10], shape=(1,))], axis=-1)
        alpha = 1.0 - tf.exp(-sigma * delta)
        light = tf.math.cumprod(1.0 - alpha + 1e-10, axis=-1, exclusive=True)
        weights = alpha * light
        rgb = tf.reduce_sum(weights[..., None] * rgb, axis=-2)
        return rgb, tf.reduce_sum(weights * t, axis=-1)


@lengths("grids", lambda length: [spec(length, 3), spec(length, 3)])
def nerf(items):
    return functional(Rays(), items)


# Graphs: the rows of the inputs are nodes, edges and graphs, of different numbers.
NODES, EDGES, GRAPHS = (6, 4), (9, 7), (3, 2)
GRAPH = [
    spec(4, rows=NODES),
    ids(2, high=4, rows=EDGES),
    ids(high=2, rows=NODES, is_sorted=True),
    spec(2, rows=GRAPHS),
]


class ConvolvedGraph(layers.Layer):
    """Messages from neighbours, whose mean is taken; a pooling of each graph."""

    def __init__(self, pool, **kwargs):
        super().__init__(**kwargs)
        self.pool = pool
        self.message, self.update = layers.Dense(4, "relu"), layers.Dense(3)

    def call(self, inputs):
        nodes, edges, graph, labels = inputs
        messages = self.message(tf.gather(nodes, edges[:, 1]))
        count = tf.shape(nodes)[0]
        messages = tf.math.unsorted_segment_mean(messages, edges[:, 0], count)
        nodes = self.update(tf.concat([nodes, messages], axis=1))
        return self.pool(nodes, graph, tf.shape(labels)[0])


def graph_of(pool):
    return functional(ConvolvedGraph(pool, name="graph"), GRAPH, layers.Dense(2))


@case("segments", GRAPH)
def graph_mean():
    return graph_of(tf.math.unsorted_segment_mean)


@case("segments", GRAPH, trains=False)
def graph_max():
    # No graph of these is empty: its maximum would be the least float32.
    return graph_of(
        lambda x, i, n: tf.maximum(tf.math.unsorted_segment_max(x, i, n), -9.0)
    )


@case("segments", GRAPH[:3])
def graph_sorted():
    """Spektral's pooling: the number of segments is known to the data alone."""

    class Pooled(layers.Layer):
        def call(self, inputs):
            nodes, _, graph = inputs
            mean = tf.math.segment_mean(nodes, graph)
            return tf.concat([mean, tf.math.segment_max(nodes, graph)], axis=-1)

    return functional(Pooled(), GRAPH[:3], layers.Dense(2))


class GraphAttention(layers.Layer):
    """A head of keras.io's graph attention network."""

    def build(self, shapes):
        self.kernel = self.add_weight("kernel", (int(shapes[0][-1]), 3))
        self.attention = self.add_weight("attention", (6, 1))

    def call(self, inputs):
        states, edges = inputs
        states = tf.matmul(states, self.kernel)
        both = tf.gather(states, edges)
        both = tf.reshape(both, (tf.shape(edges)[0], -1))
        scores = tf.nn.leaky_relu(tf.matmul(both, self.attention))
        scores = tf.math.exp(tf.clip_by_value(tf.squeeze(scores, -1), -2, 2))
        count = tf.shape(states)[0]
        sums = tf.math.unsorted_segment_sum(scores, edges[:, 0], num_segments=count)
        scores /= tf.gather(sums, edges[:, 0])
        return tf.math.unsorted_segment_sum(
            data=tf.gather(states, edges[:, 1]) * scores[:, tf.newaxis],
            segment_ids=edges[:, 0],
            num_segments=count,
        )


@case("segments", GRAPH[:2])
def graph_attention():
    return functional(GraphAttention(), GRAPH[:2], layers.Dense(2))


class ConstantGraph(layers.Layer):
    """keras.io's node classifier: the graph is a constant, the input is nodes of it."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        random = np.random.RandomState(3)
        self.features = tf.constant(random.uniform(-1, 1, (6, 4)), tf.float32)
        self.edges = tf.constant(random.randint(0, 6, (2, 9)), tf.int32)
        self.weights_of_edges = tf.ones(shape=(9,)) / 9.0
        self.prepare, self.update = layers.Dense(4, "relu"), layers.Dense(3)

    def call(self, nodes):
        senders, receivers = self.edges[0], self.edges[1]
        states = self.prepare(self.features)
        messages = tf.gather(states, receivers)
        messages = messages * tf.expand_dims(self.weights_of_edges, -1)
        count = tf.shape(self.features)[0]
        messages = tf.math.unsorted_segment_sum(messages, senders, num_segments=count)
        # Of constants alone.
        neighbours = tf.math.unsorted_segment_sum(
            tf.gather(self.features, receivers), senders, num_segments=count
        )
        states = self.update(tf.concat([states, messages, neighbours], axis=1))
        return tf.gather(tf.math.l2_normalize(states, axis=-1), nodes)


@case("segments", ids())
def constant_graph():
    return functional(ConstantGraph(), ids())


class Pooling(layers.Layer):
    """Sums of constant segments of the batch's columns, and of a given number."""

    def call(self, x):
        found = tf.math.unsorted_segment_sum(
            tf.transpose(x), tf.constant([0, 2, 0, 1]), tf.shape(x)[1]
        )
        return tf.transpose(found) + tf.reduce_max(x)


@case("segments", spec(4))
def constant_segments():
    return functional(layers.Dense(4), spec(4), Pooling())


# Products over axes, and shapes that are computed.


class Tensordot(layers.Layer):
    """Products over given axes."""

    def __init__(self, shape, axes, **kwargs):
        super().__init__(**kwargs)
        self.kernel_shape, self.axes = shape, axes

    def build(self, shape):
        self.kernel = self.add_weight("kernel", self.kernel_shape)

    def call(self, x):
        return tf.tensordot(x, self.kernel, self.axes)


@lengths("tensordot", lambda length: spec(length, 2, 3))
def tensordot_two(item):
    return functional(Tensordot((3, 2, 4), [[3, 2], [0, 1]]), item)


@case("tensordot", spec(None, 2, 3))
def tensordot_last_two_any(item=spec(None, 2, 3)):
    return functional(Tensordot((2, 3, 4), 2), item)


@case("tensordot", spec(4, None))
def tensordot_inner_any(item=spec(4, None)):
    return functional(Tensordot((4, 3), [[1], [0]]), item)


@case("tensordot", spec(4))
def tensordot_outer():
    return functional(Tensordot((3, 2), 0), spec(4), layers.Dense(2))


@case("tensordot", [spec(5, 2, 3), spec(5, 2, 3)])
def tensordot_of_tensors():
    class Similarity(layers.Layer):
        """Of each example with each other one."""

        def call(self, inputs):
            return tf.tensordot(inputs[0], inputs[1], axes=[[1, 2, 3], [1, 2, 3]])

    return functional(Similarity(), [spec(5, 2, 3), spec(5, 2, 3)])


class Modulation(layers.Layer):
    """keras.io's focal modulation."""

    def __init__(self, width=4, levels=2, **kwargs):
        super().__init__(**kwargs)
        self.width, self.levels = width, levels
        self.initial = layers.Dense(2 * width + levels + 1)
        self.contexts = [
            keras.Sequential(
                [layers.ZeroPadding2D(1), layers.Conv2D(width, 3, groups=1)]
            )
            for _ in range(levels)
        ]
        self.modulator = layers.Conv2D(width, 1)
        self.out = layers.Dense(width)

    def call(self, x, training=None):
        projected = self.initial(x)
        query, context, gates = tf.split(
            projected, [self.width, self.width, self.levels + 1], -1
        )
        context = self.contexts[0](context)
        total = context * gates[..., 0:1]
        context = self.contexts[1](context)
        total += context * gates[..., 1:2]
        everywhere = tf.nn.relu(tf.reduce_mean(context, axis=[1, 2], keepdims=True))
        total += everywhere * gates[..., self.levels :]
        return self.out(query * self.modulator(total))


class ModulationBlock(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.modulation, self.norm = Modulation(), layers.LayerNormalization()

    def call(self, inputs, height, width, channels):
        x = tf.reshape(self.norm(inputs), shape=(-1, height, width, channels))
        x = tf.reshape(self.modulation(x), shape=(-1, height * width, channels))
        return inputs + x


class FocalNetwork(layers.Layer):
    """Patches, whose number of rows and columns is handed from layer to layer."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.patches = layers.Conv2D(4, 2, 2, padding="same")
        self.block = ModulationBlock()

    def call(self, images):
        x = self.patches(images)
        height, width, channels = size(x, 1), size(x, 2), x.shape[-1]
        x = tf.reshape(x, shape=(tf.shape(x)[0], height * width, channels))
        x = self.block(x, height, width, channels)
        return tf.reduce_mean(x, axis=1)


@lengths("shapes", images, since=(2, 4))
def focal_modulation(item):
    return functional(FocalNetwork(), item, layers.Dense(2))


class Square(layers.Layer):
    """Tokens as an image, whose side is a root of their number."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.conv = layers.Conv2D(4, 2, padding="same")

    def call(self, inputs):
        tokens, image = inputs
        height, width = tf.shape(image)[1] // 2, size(image, 2) // 2
        x = tf.reshape(image, [-1, height, 2, width, 2, 3])
        x = tf.reshape(
            tf.transpose(x, [0, 1, 3, 2, 4, 5]), [-1, height * width, 2 * 2 * 3]
        )
        x = self.conv(tf.reshape(x, [tf.shape(x)[0], height, width, 12]))
        return tf.reshape(x, tf.concat([tf.shape(image)[:1], [-1]], 0))[:, :4] + tokens


@case("shapes", [spec(4), spec(6, 4, 3)])
def patches_as_image():
    return functional(Square(), [spec(4), spec(6, 4, 3)])


class Pyramid(layers.Layer):
    """A feature pyramid: a small image is resized to the size of a large one."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.large, self.small = (layers.Conv2D(2, 3, n, "same") for n in (1, 2))

    def call(self, x):
        large, small = self.large(x), self.small(x)
        return large + tf.image.resize(small, tf.shape(large)[1:3], method="nearest")


class Upsampled(layers.Layer):
    def call(self, inputs):
        x, y = inputs
        return tf.image.resize(x, [size(y, 1), size(y, 2)])


@case("shapes", images(None))
def pyramid_any(item=images(None)):
    return functional(Pyramid(), item)


@case("shapes", images(None))
def upsampled_any(item=images(None)):
    x = entry(item)
    small = layers.Conv2D(2, 3, 2, "same")(x)
    return keras.Model(x, Upsampled()([small, x]))


class Scattered(layers.Layer):
    """A row's values, at the columns that an index names."""

    def call(self, inputs):
        x, columns = inputs
        rows = tf.repeat(tf.range(tf.shape(x)[0]), tf.shape(columns)[1])
        indices = tf.stack([rows, tf.reshape(columns, [-1])], axis=1)
        values = tf.gather(x, columns, batch_dims=1)
        found = tf.scatter_nd(indices, tf.reshape(values, [-1]), tf.shape(x))
        return found + x


@case("shapes", [spec(4), ids(2, high=4)], since=(2, 4))
def scatter_into_shape():
    return functional(Scattered(), [spec(4), ids(2, high=4)], layers.Dense(2))


class Chosen(layers.Layer):
    """The item of each example that an index names."""

    def call(self, inputs):
        x, index = inputs
        rows = tf.range(tf.shape(x)[0])
        other = tf.gather_nd(x, tf.stack([rows, index], axis=1))
        return tf.gather(x, index, batch_dims=1) + 2.0 * other


@lengths("shapes", lambda length: [spec(length, 4), ids(high=5)], since=(2, 4))
def chosen_by_index(items):
    return functional(Chosen(), items, layers.Dense(2))


@case("shapes", [spec(3, 4), spec(2)], since=(2, 4))
def repeated_by_shape():
    class Repeated(layers.Layer):
        """Each row of one input, as often as the other has rows."""

        def call(self, inputs):
            x, y = inputs
            each = tf.repeat(x, tf.shape(y)[0], axis=0)
            return each[:, 0] + tf.tile(x[:, 1], [tf.shape(y)[0], 1])

    return functional(Repeated(), [spec(3, 4), spec(2)], layers.Dense(2))


# Masks that are constants.
TRIANGLE = np.tril(np.ones((4, 4), bool), -1)


class Interaction(layers.Layer):
    """DLRM: products of features, each pair once."""

    def call(self, x):
        products = tf.matmul(x, x, transpose_b=True)
        pairs = tf.boolean_mask(products, tf.constant(TRIANGLE), axis=1)
        return tf.reshape(pairs, (-1, 6))


class RowsOfMask(layers.Layer):
    """The mask is repeated for each example, so that its trues are counted by TF."""

    def call(self, x):
        products = tf.matmul(x, x, transpose_b=True)
        ones = tf.ones_like(products)
        mask = ones - tf.linalg.band_part(ones, 0, -1)
        pairs = tf.boolean_mask(products, tf.cast(mask, tf.bool))
        return tf.reshape(pairs, (tf.shape(x)[0], 6))


class SqueezedFeatures(keras.Model):
    """Features of one item each: without axes, tf.squeeze leaves the rank unknown."""

    def __init__(self):
        super().__init__()
        self.tables = [layers.Embedding(5, 4), layers.Embedding(6, 4)]
        self.pairs, self.dense = Pairs(), layers.Dense(2)

    def call(self, x):
        features = zip(self.tables, (x["one"], x["other"]))
        return self.dense(self.pairs([tf.squeeze(t(ids)) for t, ids in features]))


class Pairs(layers.Layer):
    """Products of each two features, out of one matrix."""

    def call(self, features):
        x = tf.reshape(tf.concat(features, axis=-1), (tf.shape(features[0])[0], -1, 4))
        products = tf.matmul(x, x, transpose_b=True)
        mask = tf.linalg.band_part(tf.ones_like(products), -1, 0)
        return tf.reshape(tf.boolean_mask(products, tf.cast(mask, tf.bool)), (-1, 3))


class Kept(layers.Layer):
    """Columns that a mask of constants keeps; the others are zeros."""

    def call(self, x):
        mask = tf.constant([True, False, True, True])
        kept = tf.boolean_mask(x, mask, axis=3)
        some = tf.where(mask, x, tf.zeros_like(x))
        rows = tf.where(tf.constant([[True], [False]]), x[..., :1], x[..., 1:3])
        return tf.concat([kept, some, rows], axis=-1)


@case("constant masks", spec(4, 3))
def feature_interaction():
    return functional(Interaction(), spec(4, 3), layers.Dense(2))


@case("constant masks", spec(4, 3))
def feature_interaction_of_batch():
    return functional(RowsOfMask(), spec(4, 3), layers.Dense(2))


@case("constant masks", {"one": ids(high=5), "other": ids(high=6)})
def squeezed_features():
    return SqueezedFeatures()


@case("constant masks", spec(None, 2, 4))
def constant_columns_any(item=spec(None, 2, 4)):
    return functional(layers.Dense(4), item, Kept())


# Lambdas, as a SavedModel and as H5; the same functions in layers that are lost.


def lambdas(function, inputs, *after, **options):
    return functional(layers.Lambda(function, **options), inputs, *after)


class Function(layers.Layer):
    """A function of the inputs, which the file records as a graph."""

    def __init__(self, function, **kwargs):
        super().__init__(**kwargs)
        self.function = function

    def call(self, inputs):
        return self.function(inputs)


def lambda_case(inputs, **options):
    """Enter two cases of a function: as a Lambda, and as a layer whose class is lost."""

    def decorate(function):
        def as_lambda():
            return lambdas(function, inputs)

        def as_layer():
            return functional(Function(function), inputs)

        as_lambda.__name__ = "lambda_" + function.__name__
        as_layer.__name__ = "layer_" + function.__name__
        case("Lambda", inputs, trains=False, h5=True, **options)(as_lambda)
        case("functions", inputs, trains=False, **options)(as_layer)
        return function

    return decorate


ROWS = spec(2, 2)


@lambda_case(ROWS)
def stack_of_filled(x):
    return x + K.stack([tf.zeros((2,)), tf.ones((2,))], axis=1)


@lambda_case(spec(5, dtype="int32", low=0, high=9))
def cast_of_half(x):
    return x * K.cast(K.cast(K.shape(x), "float32") / 2, "int32")[1]


@lambda_case(spec(2, 4))
def join_of_constants(x):
    return x * tf.concat([tf.zeros((2, 1)), tf.constant([[1.0, 2.0, 3.0]] * 2)], axis=1)


@lambda_case(spec(3))
def unstack_of_constants(x):
    first, second = tf.unstack(
        tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), axis=1
    )
    left, right = tf.split(tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), 2, axis=1)
    return x * first + second * left[:, 0] - right[:, 0]


@lambda_case(spec(2, 3))
def squeeze_of_constants(x):
    table = tf.constant([[[1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0]]])
    return x * tf.squeeze(table, axis=1) + K.squeeze(table, 1)


@lambda_case(spec(2, 3))
def like_constants(x):
    table = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    return x * tf.ones_like(table) + K.zeros_like(table) + K.ones_like(table)


@lambda_case(spec(4, dtype="int32", low=0, high=9))
def wrapped_around(x):
    return x + tf.constant(2**30) * tf.constant(4) + tf.constant([2**31 - 1]) + 2


@lambda_case(spec(4, low=1.0, high=9.0))
def rounded_to_float32(x):
    return x * ((tf.constant(2.0**24) + tf.constant(1.0)) - tf.constant(2.0**24) + 1.0)


@lambda_case(spec(4))
def integers_divided(x):
    sevens = tf.constant([-7, 7, -8, 8])
    return x * tf.cast(sevens // 2, "float32") + tf.cast(sevens % 3, "float32")


@lambda_case(spec(4))
def chosen_by_constants(x):
    return tf.where(tf.constant([True, False, True, False]), x, 2.0 * x)


@lambda_case(spec(4))
def chosen_by_scalar(x):
    return tf.where(tf.constant(3) > tf.constant(2), x, tf.zeros_like(x)) + tf.where(
        K.int_shape(x)[1] == 5, 1.0, 2.0
    )


@lambda_case(spec(4))
def clipped_constants(x):
    return x * tf.clip_by_value(tf.constant([-2.0, -0.5, 0.5, 2.0]), -1.0, 1.0)


@lambda_case(spec(4))
def linspace_of_constants(x):
    return x * tf.linspace(0.0, 1.0, 4) + tf.math.cumprod(
        tf.constant([1.0, 2.0, 3.0, 4.0]), exclusive=True
    )


@lambda_case([spec(3), spec(2)], since=(2, 4))
def repeat_by_shape(inputs):
    return tf.repeat(inputs[0], tf.shape(inputs[1])[0], axis=0)


@lambda_case(spec(None, 3))
def steps_of_any_length(x):
    steps = K.cumsum(K.ones_like(x[:, :, :1]), axis=1)
    return x * steps / K.cast(K.shape(x)[1], "float32") + K.arange(
        0, 3, dtype="float32"
    )


@lambda_case(spec(None, 3))
def filled_by_shape(x):
    shape = tf.shape(x)
    return tf.concat([x, tf.fill([shape[0], shape[1], 1], 0.5)], axis=-1)


@lambda_case(spec(None, 4))
def reshaped_by_half(x):
    shape = tf.shape(x)
    return tf.reshape(x, [shape[0], shape[1] * 2, shape[2] // 2])


@lambda_case(spec(None, None, 1))
def doubled_image(x):
    return tf.image.resize(x, [tf.shape(x)[1] * 2, tf.shape(x)[2] * 2])


@lambda_case([spec(None, None, 3), spec(None, None, 2)])
def resized_to_other(inputs):
    return tf.image.resize(inputs[0][:, ::2, ::2], tf.shape(inputs[1])[1:3])


@lambda_case([spec(4), ids(2, high=4)])
def scatter_by_shape(inputs):
    x, columns = inputs
    indices = tf.stack([columns[:, 0], tf.range(tf.shape(x)[0])], axis=1)
    return tf.scatter_nd(indices, x[:, 0], [4, tf.shape(x)[0]])


@lambda_case([spec(4), ids(high=2), spec(2, rows=(2, 4))])
def segments_by_shape(inputs):
    x, rows, other = inputs
    return tf.math.unsorted_segment_sum(x, rows, tf.shape(other)[0])


@lambda_case([spec(5, 4), ids(high=5)], since=(2, 4))
def gather_by_batch(inputs):
    return tf.gather(inputs[0], inputs[1], batch_dims=1)


@lambda_case(spec(4, 3))
def boolean_mask(x):
    return tf.boolean_mask(x, [True, False, True, True], axis=1)


@lambda_case(spec(2, 3))
def tensordot(x):
    return tf.tensordot(
        x, tf.constant([[[1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0]]]), [[1, 2], [0, 2]]
    )


@lambda_case(spec(None, 3))
def causal_mean(x):
    length = tf.shape(x)[1]
    mask = tf.linalg.band_part(tf.ones((length, length)), -1, 0)
    mask = mask / tf.reduce_sum(mask, axis=1, keepdims=True)
    return tf.matmul(tf.tile(mask[None], [tf.shape(x)[0], 1, 1]), x)


class RawOps(layers.Layer):
    """Ops that functions of TensorFlow seldom leave of constants."""

    def call(self, x):
        table = tf.constant([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])
        y = x * tf.raw_ops.ClipByValue(t=table, clip_value_min=-1.5, clip_value_max=3.5)
        y += tf.raw_ops.ZerosLike(x=table) - tf.raw_ops.OnesLike(x=table)
        return y / tf.raw_ops.Squeeze(input=table[:, None], axis=[1])


class NormalizedConstant(layers.Layer):
    def call(self, x):
        found = tf.raw_ops.FusedBatchNormV3(
            x=tf.reshape(tf.range(12.0), (1, 2, 3, 2)),
            scale=tf.constant([1.0, 2.0]),
            offset=tf.constant([0.5, -0.5]),
            mean=tf.constant([3.0, 4.0]),
            variance=tf.constant([2.0, 0.5]),
            is_training=False,
        )
        return x * found.y


@case("functions", spec(2, 3), trains=False)
def raw_ops_of_constants():
    return functional(RawOps(), spec(2, 3))


@case("functions", spec(2, 3, 2), trains=False)
def normalized_constant():
    return functional(NormalizedConstant(), spec(2, 3, 2))


# keras.utils.multi_gpu_model: a model on each part of the batch, joined again.


def get_slice(data, i, parts):
    """The function in the Lambdas that multi_gpu_model makes."""
    shape = tf.shape(data)
    batch_size = shape[:1]
    input_shape = shape[1:]
    step = batch_size // parts
    if i == parts - 1:
        size = batch_size - step * i
    else:
        size = step
    size = tf.concat([size, input_shape], axis=0)
    stride = tf.concat([step, input_shape * 0], axis=0)
    start = stride * i
    return tf.slice(data, start, size)


def parallel(parts, item):
    inner = functional(layers.Dense(3, name="head"), item)
    x = entry(item)
    outputs = []
    for i in range(parts):
        part = layers.Lambda(
            get_slice,
            output_shape=x.shape.as_list()[1:],
            arguments={"i": i, "parts": parts},
        )(x)
        outputs.append(inner(part))
    return keras.Model(x, layers.concatenate(outputs, axis=0, name="joined"))


# A batch is no multiple of the number of parts.
@case("multi_gpu_model", spec(4), batches=(7, 5), h5=True)
def two_parts():
    return parallel(2, spec(4))


@case("multi_gpu_model", spec(4), batches=(7, 5), h5=True)
def four_parts():
    return parallel(4, spec(4))


@case("multi_gpu_model", spec(None, 4), batches=(5, 7), h5=True)
def four_parts_any():
    return parallel(4, spec(None, 4))


@case("multi_gpu_model", spec(4), until=(2, 0), batches=(7, 5), h5=True)
def multi_gpu_model():
    """The one of TensorFlow itself, which finds devices that are not there."""
    from tensorflow.python.keras.utils import multi_gpu_utils

    devices = ["/device:CPU:0", "/device:GPU:0", "/device:GPU:1"]
    multi_gpu_utils._get_available_devices = lambda: devices
    tf.config.set_soft_device_placement(True)
    inner = functional(layers.Dense(3), spec(4))
    return keras.utils.multi_gpu_model(inner, gpus=2)


# Loops over rows that are computed: TensorFlow recorded how many there are.


class Moves(layers.Layer):
    """A cell of one's own: the score of the best path to each state."""

    state_size = output_size = 3

    def build(self, shape):
        self.moves = self.add_weight("moves", (3, 3))

    def call(self, scores, states):
        best = tf.reduce_max(states[0][..., tf.newaxis] + self.moves, axis=1) + scores
        return best, [best]


class BestPath(layers.Layer):
    """The first scores are the state before the others, as in a random field."""

    def build(self, shape):
        self.scores = layers.Dense(3)
        self.rnn = layers.RNN(Moves(), return_sequences=True)

    def call(self, x):
        scores = self.scores(x)
        return self.rnn(scores[:, 1:], initial_state=[scores[:, 0]])


@case("loops", spec(5, 4))
def best_path():
    return functional(BestPath(), spec(5, 4), layers.Dense(2))
