"""Models whose gradients or losses were lost without a word: by `write_lost.py`.

What `lost_table.py` says of its functions holds here, too.
"""

import tensorflow as tf
from lost_table import X, functional, registering, spec

keras = tf.keras
layers, K = keras.layers, keras.backend
CASES = {}
case = registering(CASES)


@tf.custom_gradient
def reversed_gradient(x):
    return tf.identity(x), lambda dy: -0.5 * dy


class Reversal(layers.Layer):
    """The layer of domain-adversarial training (DANN), after a product."""

    def build(self, shape):
        self.kernel = self.add_weight("kernel", (shape[-1], 3))

    def call(self, x):
        return reversed_gradient(tf.matmul(x, self.kernel))


@case("gradients", X, trains=False)
def gradient_reversal():
    return functional(Reversal(), X, layers.Dense(2))


@tf.custom_gradient
def clipped_gradient(x):
    return tf.identity(x), lambda dy: tf.clip_by_norm(dy, 0.01)


class Clipped(Reversal):
    """A gradient that is clipped on its way back."""

    def call(self, x):
        return clipped_gradient(tf.nn.swish(tf.matmul(x, self.kernel)))


@case("gradients", X, trains=False)
def gradient_clipped():
    return functional(Clipped(), X, layers.Dense(2))


class Attention(layers.Layer):
    """The attention of many notebooks, with a weight and a bias."""

    def build(self, shape):
        self.W = self.add_weight("att_weight", (shape[-1], 1))
        self.b = self.add_weight("att_bias", (shape[1], 1), initializer="zeros")

    def call(self, x):
        e = K.tanh(K.dot(x, self.W) + self.b)
        return K.sum(x * K.softmax(e, axis=1), axis=1)


@case("attention", spec(5, 4))
def attention_over_steps():
    return functional(Attention(), spec(5, 4), layers.Dense(2))


class AttentionOfOne(Attention):
    """A softmax over the last axis, of length 1: its weights have no gradient."""

    def call(self, x):
        e = K.tanh(K.dot(x, self.W) + self.b)
        return K.sum(x * K.softmax(e), axis=1)


@case("attention", spec(5, 4))
def attention_of_one():
    return functional(AttentionOfOne(), spec(5, 4), layers.Dense(2))


class AttentionByEpsilon(Attention):
    """github.com/philipperemy and many kernels: exp, and a sum with epsilon."""

    def call(self, x):
        shape = K.shape(x)
        products = K.dot(K.reshape(x, (-1, 4)), K.reshape(self.W, (4, 1)))
        a = K.exp(K.tanh(K.reshape(products, (-1, shape[1])) + self.b[:, 0]))
        a /= K.cast(K.sum(a, axis=1, keepdims=True) + K.epsilon(), K.floatx())
        return K.sum(x * K.expand_dims(a), axis=1)


@case("attention", spec(5, 4))
def attention_by_epsilon():
    return functional(AttentionByEpsilon(), spec(5, 4), layers.Dense(2))


# Losses: keras.io's OCR for captchas has labels as float32.


class Endpoint(layers.Layer):
    def call(self, y_true, y_pred):
        count = tf.cast(tf.shape(y_true)[0], "int64")
        times = tf.cast(tf.shape(y_pred)[1], "int64") * tf.ones((count, 1), "int64")
        letters = tf.cast(tf.shape(y_true)[1], "int64") * tf.ones((count, 1), "int64")
        self.add_loss(K.ctc_batch_cost(y_true, y_pred, times, letters))
        return y_pred


def ctc(dtype):
    labels = keras.Input((2,), dtype=dtype)
    x = keras.Input((5, 4))
    predicted = layers.Dense(3, activation="softmax")(x)
    return keras.Model([x, labels], Endpoint()(labels, predicted))


@case("losses", [spec(5, 4), spec(2, low=0, high=1.9)])
def ctc_of_float_labels():
    return ctc("float32")


@case("losses", [spec(5, 4), spec(2, dtype="int64", low=0, high=2)])
def ctc_of_int64_labels():
    return ctc("int64")


class Beta(layers.Layer):
    """A loss whose op has no counterpart."""

    def call(self, x):
        a = tf.abs(x) + 1
        self.add_loss(tf.reduce_mean(tf.math.betainc(a, a + 1, tf.sigmoid(x))))
        return x


@case("losses", X, trains=False)
def loss_by_an_unknown_op():
    return functional(Beta(), X, layers.Dense(2))
