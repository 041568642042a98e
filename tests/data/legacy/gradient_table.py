"""Models whose gradients are not those of their ops: written by `write_lost.py`.

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
