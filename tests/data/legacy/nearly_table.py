"""Models whose layers nearly are stock layers: by `write_lost.py`.

What differs shows only outside of small numbers, at another batch size, or in the
gradient. What `lost_table.py` says of its functions holds here, too. A case that ends
with `_stock` is the stock layer, written by hand.
"""

import tensorflow as tf
from lost_table import functional, registering, spec

keras = tf.keras
layers, K = keras.layers, keras.backend
CASES = {}
case = registering(CASES)
WIDE = spec(8, 4, low=-30.0, high=30.0)
ANY = spec(None, 4, low=-30.0, high=30.0)


class Cell(layers.Layer):
    """A recurrent cell: `function` of its inner sum and its states."""

    def __init__(self, units, gates, states, function, **kwargs):
        super().__init__(**kwargs)
        self.units, self.gates, self.function = units, gates, function
        self.state_size = [units] * states if states > 1 else units
        self.output_size = units

    def build(self, shape):
        width = self.gates * self.units
        self.kernel = self.add_weight("kernel", (int(shape[-1]), width))
        self.recurrent = self.add_weight("recurrent_kernel", (self.units, width))
        self.bias = self.add_weight("bias", (width,))

    def call(self, x, states):
        inner = tf.matmul(x, self.kernel) + tf.matmul(states[0], self.recurrent)
        new = self.function(inner + self.bias, states)
        return new[0], new

    def get_config(self):
        return super().get_config()


def lstm(change_c, change_f=lambda f: f):
    def function(inner, states):
        i, f, g, o = tf.split(inner, 4, -1)
        f = change_f(tf.sigmoid(f))
        c = change_c(f * states[1] + tf.sigmoid(i) * tf.tanh(g))
        return [tf.sigmoid(o) * tf.tanh(c), c]

    return layers.RNN(Cell(3, 4, 2, function))


def simple(function):
    return layers.RNN(Cell(3, 1, 1, lambda inner, states: [function(inner)]))


@case("recurrent", WIDE)
def lstm_clip():
    return functional(lstm(lambda c: tf.clip_by_value(c, -1.5, 1.5)), WIDE)


@case("recurrent", ANY)
def lstm_clip_any():
    return functional(lstm(lambda c: tf.clip_by_value(c, -10.0, 10.0)), ANY)


@case("recurrent", WIDE)
def lstm_forgets_little():
    return functional(lstm(lambda c: c, lambda f: tf.maximum(f, 0.01)), WIDE)


@case("recurrent", WIDE)
def lstm_of_integers():
    return functional(lstm(lambda c: c - 0.001 * tf.stop_gradient(tf.round(c))), WIDE)


@case("recurrent", WIDE)
def lstm_stopped():
    return functional(lstm(lambda c: c, tf.stop_gradient), WIDE)


@case("recurrent", ANY)
def lstm_stock():
    return functional(lstm(lambda c: c), ANY, layers.Dense(2))


@case("recurrent", WIDE)
def rnn_of_at_most_20():
    return functional(simple(lambda z: tf.minimum(tf.nn.relu(z), 20.0)), WIDE)


@case("recurrent", ANY)
def rnn_of_at_most_6_any():
    return functional(simple(tf.nn.relu6), ANY)


@case("recurrent", ANY)
def rnn_relu_stock():
    return functional(simple(lambda z: tf.maximum(z, 0.0)), ANY, layers.Dense(2))


@case("recurrent", ANY)
def rnn_hard_sigmoid_stock():
    def function(z):
        return tf.minimum(tf.maximum(0.2 * z + 0.5, 0.0), 1.0)

    return functional(simple(function), ANY, layers.Dense(2))


class Norm(layers.Layer):
    """A batch normalization; `change` is called on its result."""

    def __init__(self, momentum=0.99, epsilon=1e-3, change=None, stops=False, **kwargs):
        super().__init__(**kwargs)
        self.momentum, self.epsilon = momentum, epsilon
        self.change, self.stops = change, stops

    def build(self, shape):
        shape = (int(shape[-1]),)
        self.gamma = self.add_weight("gamma", shape, initializer="ones")
        self.beta = self.add_weight("beta", shape)
        self.mean = self.add_weight("moving_mean", shape, trainable=False)
        self.variance = self.add_weight("moving_variance", shape, trainable=False)

    def call(self, x, training=None):
        mean, variance = self.mean, self.variance
        if training:
            mean, variance = tf.nn.moments(x, list(range(len(x.shape) - 1)))
            keep = self.momentum
            self.mean.assign(keep * self.mean + (1 - keep) * mean)
            self.variance.assign(keep * self.variance + (1 - keep) * variance)
            if self.stops:
                mean, variance = map(tf.stop_gradient, (mean, variance))
        y = (x - mean) / tf.sqrt(variance + self.epsilon)
        y = self.gamma * y + self.beta
        return y if self.change is None else self.change(y)

    def get_config(self):
        return super().get_config()


ROWS, IMAGES = spec(5, low=-90.0, high=90.0), spec(4, 4, 3, low=-9.0, high=9.0)


@case("normalization", ROWS)
def norm_clip():
    change = lambda y: tf.clip_by_value(y, -10.0, 10.0)  # noqa: E731
    return functional(Norm(change=change), ROWS, layers.Dense(2))


@case("normalization", IMAGES)
def norm_relu6_of_images():
    return functional(Norm(change=tf.nn.relu6), IMAGES)


@case("normalization", ROWS)
def norm_gradient_stopped():
    return functional(Norm(stops=True), ROWS, layers.Dense(2))


@case("normalization", spec(5))
def norm_momentum_stock():
    return functional(Norm(0.99999), spec(5), layers.Dense(2))


@case("normalization", spec(5))
def norm_digits_stock():
    return functional(Norm(0.98765, 0.0012345), spec(5), layers.Dense(2))


@case("normalization", IMAGES)
def norm_of_images_stock():
    return functional(Norm(0.9, 1e-5), IMAGES)


class Product(layers.Layer):
    """A product with a weight; `function` of the input and the weight."""

    def __init__(self, shape, function, regularizer=None, **kwargs):
        super().__init__(**kwargs)
        self.shape, self.function, self.regularizer = shape, function, regularizer

    def build(self, shape):
        name, of = "w", self.regularizer
        self.w = self.add_weight(name, self.shape, regularizer=of)

    def call(self, x):
        return self.function(x, self.w)

    def get_config(self):
        return super().get_config()


def rows(x, w, size):
    return tf.matmul(tf.reshape(x, [-1, size]), w)


@case("shapes", spec(2, 6))
def batch_in_another_axis():
    def function(x, w):
        y = tf.reshape(rows(x, w, 6), [2, tf.shape(x)[0], 5])
        return tf.transpose(y, [1, 0, 2])

    return functional(Product((6, 5), function), spec(2, 6), layers.Dense(1))


@case("shapes", spec(2, 3, 4))
def axes_in_another_order():
    def function(x, w):
        return tf.reshape(rows(x, w, 4), [tf.shape(x)[0], 3, 2, 5])

    return functional(Product((4, 5), function), spec(2, 3, 4))


@case("shapes", spec(4, 6))
def rows_in_groups():
    def function(x, w):
        return tf.reshape(rows(x, w, 12), [tf.shape(x)[0], 2, 5])

    return functional(Product((12, 5), function), spec(4, 6), layers.Dense(1))


@case("shapes", spec(4, 6))
def parts_of_rows():
    def function(x, w):
        return tf.reshape(rows(x, w, 3), [-1, 4, 2, 5])

    return functional(Product((3, 5), function), spec(4, 6))


@case("shapes", spec(4, 6))
def rows_stock():
    def function(x, w):
        return tf.reshape(rows(x, w, 6), [-1, 4, 5])

    return functional(Product((6, 5), function), spec(4, 6), layers.Dense(1))


def regularized(function):
    layer = Product((20, 3), tf.matmul, function)
    return functional(layer, spec(20), layers.Dense(1))


@case("regularizer", spec(20))
def regularizer_of_first_rows():
    return regularized(lambda w: 0.1 * tf.reduce_sum(tf.square(w[:10])))


@case("regularizer", spec(20))
def regularizer_of_at_most_1():
    return regularized(lambda w: 0.1 * tf.reduce_sum(tf.minimum(w * w, 0.2)))


@case("regularizer", spec(20))
def regularizer_digits_stock():
    def function(w):
        return 0.0123456 * tf.reduce_sum(tf.square(w)) + tf.reduce_sum(tf.abs(w)) * 1e-6

    return regularized(function)


class Gate(layers.Layer):
    """A function with a gradient of its own, after a product."""

    def __init__(self, function, **kwargs):
        super().__init__(**kwargs)
        self.function = function

    def build(self, shape):
        self.kernel = self.add_weight("kernel", (int(shape[-1]), 3))

    def call(self, x):
        return self.function(tf.matmul(x, self.kernel))

    def get_config(self):
        return super().get_config()


def gated(function):
    return functional(Gate(function), spec(4), layers.Dense(2))


@tf.custom_gradient
def straight_gate(x):
    return x * tf.sigmoid(x), lambda dy: dy


@tf.custom_gradient
def binarized(x):
    return tf.sign(x), lambda dy: tf.where(tf.abs(x) <= 0.5, dy, tf.zeros_like(dy))


@tf.custom_gradient
def scaled(x):
    return tf.identity(x), lambda dy: -0.3 * dy


@tf.custom_gradient
def rounded(x):
    return tf.round(4 * x) / 4, lambda dy: dy * tf.exp(-tf.square(x))


@tf.custom_gradient
def clipped(x):
    return tf.identity(x), lambda dy: tf.clip_by_norm(dy, 0.001)


@case("gradient", spec(4))
def gradient_of_a_gate():
    return gated(straight_gate)


@case("gradient", spec(4))
def gradient_of_signs():
    return gated(binarized)


@case("gradient", spec(4))
def gradient_turned_around():
    return gated(scaled)


@case("gradient", spec(4))
def gradient_of_rounding():
    return gated(rounded)


@case("gradient", spec(4))
def gradient_by_its_norm():
    return gated(clipped)


@case("gradient", spec(4))
def gradient_of_swish_stock():
    return gated(tf.nn.swish)


@case("gradient", spec(4, low=-2.0, high=2.0))
def gradient_at_ties():
    def function(x):
        return tf.maximum(tf.clip_by_value(x, -0.5, 0.5), tf.minimum(x, 0.5))

    return functional(Gate(function), spec(4), layers.Dense(2))
