"""Models that bend where small random numbers do not lead: written by `write_lost.py`.

What `lost_table.py` says of its functions holds here, too.
"""

import tensorflow as tf
from lost_table import entry, functional, ids, registering, spec

keras = tf.keras
layers = keras.layers
CASES = {}
case = registering(CASES)
X, ANY = spec(4), spec(None, 4)


class Of(layers.Layer):
    """Calls a function, as many a lost layer does."""

    def __init__(self, function, **kwargs):
        super().__init__(**kwargs)
        self.function = function

    def call(self, inputs):
        return self.function(inputs)


@case("scales", X)
def limit_of_20():
    return functional(Of(lambda x: tf.minimum(2.0 * x, 20.0)), X)


@case("scales", X)
def limit_of_100000():
    return functional(Of(lambda x: tf.clip_by_value(2.0 * x, -1e5, 1e5)), X)


@case("scales", X)
def nothing_below_a_thousandth():
    return functional(Of(lambda x: tf.maximum(tf.abs(2.0 * x), 1e-3)), X)


@case("scales", X)
def step_at_a_half():
    return functional(Of(lambda x: tf.where(x > 0.5, 1.0, 0.0)), X)


@case("scales", X)
def exponents():
    """At inputs of 1000, rounding changes all digits."""
    return functional(Of(lambda x: tf.sin(tf.exp(x / 4.0))), X)


@case("batches", X)
def times_the_batch():
    return functional(Of(lambda x: x * tf.cast(tf.shape(x)[0], x.dtype)), X)


@case("lengths", ANY)
def times_the_length():
    return functional(Of(lambda x: x * tf.cast(tf.shape(x)[1], x.dtype)), ANY)


@case("integers", ids(3))
def table_of_40():
    x = entry(ids(3))
    return keras.Model(x, Of(lambda x: x * 2.0)(layers.Embedding(40, 2)(x)))


class Attending(layers.Layer):
    """The attention of BERT, whose mask is 0 or 1."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.attention = layers.MultiHeadAttention(1, 4, name="attention")

    def call(self, inputs):
        x, mask = inputs
        rows = tf.cast(tf.reshape(mask, [tf.shape(mask)[0], 1, 5]), x.dtype)
        mask = tf.ones([tf.shape(x)[0], 5, 1], x.dtype) * rows
        return self.attention(x, x, attention_mask=mask)


@case("integers", [spec(5, 4), ids(5, high=2)])
def attention_of_a_mask():
    return functional(Attending(), [spec(5, 4), ids(5, high=2)])


@case("integers", [spec(5, 4), ids(5, high=2)])
def chosen_by_a_flag():
    def chosen(inputs):
        x, flags = inputs
        return x * 2.0 + tf.cast(tf.cast(flags, "bool"), x.dtype)[:, :, None]

    return functional(Of(chosen), [spec(5, 4), ids(5, high=2)])


class Dense(layers.Dense):
    """Has the name of a layer of Keras, and its config, and doubles what that gives."""

    def call(self, inputs):
        return 2.0 * super().call(inputs)


@case("namesakes", spec(128, 128, 1), trains=False, batches=(1, 1))
def behind_large_convolutions():
    x = entry(spec(128, 128, 1))
    y = layers.Conv2D(2, 63, padding="same")(x)
    y = layers.Conv2D(2, 63, padding="same")(y)
    return keras.Model(x, Dense(3)(layers.GlobalAveragePooling2D()(y)))
