"""Models with loops over the batch, and with sizes that are computed: `write_lost.py`.

What `lost_table.py` says of its functions holds here, too.
"""

import tensorflow as tf
from lost_table import SEQUENCE, functional, ids, registering, spec

keras = tf.keras
layers, K = keras.layers, keras.backend
CASES = {}
case = registering(CASES)
BOTH = (tf.float32, tf.float32)


class Weighted(layers.Layer):
    """A layer with a matrix."""

    shape = 4, 3

    def build(self, shape):
        self.W = self.add_weight("W", self.shape)


class Capsules(Weighted):
    """github.com/XifengGuo/CapsNet-Keras, on TensorFlow 2."""

    shape = 3, 5, 6, 4

    def predictions(self, x):
        return tf.map_fn(lambda x: tf.matmul(self.W, x), elems=x)

    def call(self, x):
        x = tf.expand_dims(tf.expand_dims(x, 1), -1)
        found = tf.squeeze(self.predictions(tf.tile(x, [1, 3, 1, 1, 1])), -1)
        b = tf.zeros(shape=[tf.shape(x)[0], 3, 1, 5])
        for i in range(3):
            outputs = tf.matmul(tf.nn.softmax(b, axis=1), found)
            n = tf.reduce_sum(tf.square(outputs), -1, keepdims=True)
            outputs = n / (1 + n) / tf.sqrt(n + K.epsilon()) * outputs
            if i < 2:
                b += tf.matmul(outputs, found, transpose_b=True)
        return tf.squeeze(outputs, 2)


@case("map", SEQUENCE)
def capsules():
    return functional(Capsules(), SEQUENCE, layers.Dense(2))


class ScannedCapsules(Capsules):
    """`tf.scan` whose rounds do not use what the last one made."""

    def predictions(self, x):
        first = tf.zeros([3, 5, 6, 1])
        return tf.scan(lambda _, x: tf.matmul(self.W, x), elems=x, initializer=first)


@case("map", SEQUENCE)
def capsules_by_scan():
    return functional(ScannedCapsules(), SEQUENCE, layers.Dense(2))


class OfTwoInputs(Weighted):
    def call(self, inputs):
        def row(pair):
            return tf.nn.relu(tf.matmul(pair[0], self.W)) + pair[1][tf.newaxis]

        return tf.map_fn(row, tuple(inputs), dtype=tf.float32)


@case("map", [SEQUENCE, spec(3)])
def mapped_two_inputs():
    return functional(OfTwoInputs(), [SEQUENCE, spec(3)], layers.Dense(2))


class Ranks(layers.Layer):
    """Weights and items of several ranks meet; a result is one number."""

    def build(self, shapes):
        self.W = self.add_weight("W", (4, 4))
        self.b = self.add_weight("b", (5,))
        self.c = self.add_weight("c", (5, 5))

    def call(self, inputs):
        def row(pair):
            x, v = pair
            both = tf.matmul(tf.matmul(x, self.W), x, transpose_b=True)
            both += self.b + self.c
            both = tf.where(tf.expand_dims(v, -1) > 0, both, both * v)
            means = tf.reduce_mean(tf.tile(both, [1, 2]) + v[0], axis=[0])
            return means, tf.reduce_sum(tf.square(both)) / 10.0

        a, b = tf.map_fn(row, tuple(inputs), dtype=BOTH)
        return a + tf.expand_dims(b, 1)


@case("map", [SEQUENCE, spec(5)])
def mapped_ranks():
    return functional(Ranks(), [SEQUENCE, spec(5)], layers.Dense(2))


class Dtypes(layers.Layer):
    def call(self, x):
        largest = tf.map_fn(lambda x: tf.argmax(x, 0), x, dtype=tf.int64)
        rows = tf.map_fn(lambda p: tf.gather(p[0], p[1]), (x, largest), dtype=tf.float32)
        is_more = tf.map_fn(
            lambda x: tf.cast(tf.reduce_sum(x) > 0, tf.int32), x, dtype=tf.int32
        )
        return tf.reduce_sum(rows, 1) + tf.cast(is_more, tf.float32)[:, None]


@case("map", SEQUENCE)
def mapped_dtypes():
    return functional(Dtypes(), SEQUENCE, layers.Dense(2))


class Shapes(Weighted):
    def call(self, x):
        def row(x):
            x = tf.transpose(tf.reshape(tf.matmul(x, self.W), (5, 3)), [1, 0])
            x = tf.concat([x[:, 1:], x[:, :1]], 1) * tf.linspace(0.0, 1.0, 5)
            x -= tf.reduce_mean(x, axis=0, keepdims=True)
            return tf.nn.softmax(tf.reshape(x, (-1,)))

        return tf.map_fn(row, x)


@case("map", SEQUENCE)
def mapped_shapes():
    return functional(Shapes(), SEQUENCE, layers.Dense(2))


class AnyLength(Weighted):
    def call(self, x):
        def row(x):
            return tf.nn.softmax(tf.matmul(x, self.W), 0) + tf.reduce_max(x)

        return tf.map_fn(row, x)


@case("map", spec(None, 4))
def mapped_any_length():
    return functional(AnyLength(), spec(None, 4), layers.Dense(2))


class LayerOfEach(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(3, activation="relu")

    def call(self, x):
        return tf.map_fn(lambda x: self.dense(x), x)


@case("map", SEQUENCE)
def mapped_layer():
    return functional(LayerOfEach(), SEQUENCE, layers.Dense(2))


class Numbered(Weighted):
    """The number of a round is a factor."""

    def place(self, i, n):
        return i

    def call(self, x):
        n = tf.shape(x)[0]
        items = tf.TensorArray(tf.float32, n).unstack(x)

        def row(i, rows):
            found = tf.matmul(items.read(i), self.W) * tf.cast(i, tf.float32)
            return i + 1, rows.write(self.place(i, n), found)

        start = 0, tf.TensorArray(tf.float32, n)
        return tf.while_loop(lambda i, _: i < n, row, start)[1].stack()


@case("map", SEQUENCE)
def mapped_numbers():
    return functional(Numbered(), SEQUENCE, layers.Dense(2))


# Loops that are no maps, or that hold what does not go over all examples at once.


class Reversed(Numbered):
    def place(self, i, n):
        return n - 1 - i


@case("loop", SEQUENCE)
def mapped_in_reverse():
    return functional(Reversed(), SEQUENCE, layers.Dense(2))


class Running(Weighted):
    def call(self, x):
        first = tf.zeros((5, 3))
        return tf.scan(lambda last, x: last + tf.matmul(x, self.W), x, first)


@case("loop", SEQUENCE)
def running_sums():
    return functional(Running(), SEQUENCE, layers.Dense(2))


class Totals(Weighted):
    """A total from 0 on, as a counter is."""

    def call(self, x):
        n = tf.shape(x)[0]
        items = tf.TensorArray(tf.float32, n).unstack(x)

        def row(i, total, rows):
            x = items.read(i)
            total = total + tf.cast(tf.reduce_sum(x) > 0, tf.int32)
            return i + 1, total, rows.write(i, tf.matmul(x, self.W))

        start = 0, 0, tf.TensorArray(tf.float32, n)
        _, total, rows = tf.while_loop(lambda i, *_: i < n, row, start)
        return rows.stack() + tf.cast(total, tf.float32)


@case("loop", SEQUENCE)
def mapped_with_a_total():
    return functional(Totals(), SEQUENCE, layers.Dense(2))


class Chosen(Weighted):
    def call(self, x):
        def row(x):
            y = tf.matmul(x, self.W)
            return tf.cond(tf.reduce_sum(x) > 0, lambda: y, lambda: -y)

        return tf.map_fn(row, x)


@case("loop", SEQUENCE)
def mapped_condition():
    return functional(Chosen(), SEQUENCE, layers.Dense(2))


# What rounds do in training alone.


class DroppedOverBatch(Weighted):
    def row(self, x, training):
        y = tf.matmul(x, self.W)
        return tf.nn.dropout(y, 0.4) if training else y

    def call(self, x, training=None):
        return tf.map_fn(lambda x: self.row(x, training), x)


@case("training", SEQUENCE, trains=False)
def dropout_over_batch():
    return functional(DroppedOverBatch(), SEQUENCE, layers.Dense(2))


class DroppedOverSteps(DroppedOverBatch):
    def call(self, x, training=None):
        steps = tf.transpose(x, [1, 0, 2])
        steps = tf.map_fn(lambda x: self.row(x, training), steps)
        return tf.transpose(steps, [1, 0, 2])


@case("training", SEQUENCE, trains=False)
def dropout_over_steps():
    return functional(DroppedOverSteps(), SEQUENCE, layers.Dense(2))


class NoisyOverBatch(DroppedOverBatch):
    def row(self, x, training):
        y = tf.matmul(x, self.W)
        return y * (1 + tf.random.uniform([3])) if training else y


@case("training", SEQUENCE, trains=False)
def noise_over_batch():
    return functional(NoisyOverBatch(), SEQUENCE, layers.Dense(2))


GRAPH = [spec(4, rows=(5, 5)), ids(2, high=4, rows=(7, 9), is_sorted=True)]


class GraphAttention(layers.Layer):
    """A head of keras.io's graph attention network, as it is there."""

    def build(self, shapes):
        self.kernel = self.add_weight("kernel", (int(shapes[0][-1]), 3))
        self.attention = self.add_weight("attention", (6, 1))

    def call(self, inputs):
        states, edges = inputs
        states = tf.matmul(states, self.kernel)
        both = tf.reshape(tf.gather(states, edges), (tf.shape(edges)[0], -1))
        scores = tf.nn.leaky_relu(tf.matmul(both, self.attention))
        scores = tf.math.exp(tf.clip_by_value(tf.squeeze(scores, -1), -2, 2))
        sums = tf.math.unsorted_segment_sum(
            scores, edges[:, 0], num_segments=tf.reduce_max(edges[:, 0]) + 1
        )
        scores /= tf.repeat(sums, tf.math.bincount(tf.cast(edges[:, 0], "int32")))
        return tf.math.unsorted_segment_sum(
            data=tf.gather(states, edges[:, 1]) * scores[:, tf.newaxis],
            segment_ids=edges[:, 0],
            num_segments=tf.shape(states)[0],
        )


@case("segments", GRAPH)
def attention_by_the_largest():
    return functional(GraphAttention(), GRAPH, layers.Dense(2))
