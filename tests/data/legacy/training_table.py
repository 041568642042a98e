"""Models that do more in training than they predict: written by `write_lost.py`.

What `lost_table.py` says of its functions holds here, too.
"""

import tensorflow as tf
from lost_table import functional, registering, spec

keras = tf.keras
layers, regularizers = keras.layers, keras.regularizers
CASES = {}
case = registering(CASES)
X, LONG, SEQUENCE = spec(4), spec(20), spec(5, 4)


# Losses that layers add.


class VectorQuantizer(layers.Layer):
    """keras.io's vector-quantized VAE."""

    def build(self, shape):
        self.codes = self.add_weight("codes", (4, 6), initializer="uniform")

    def call(self, x):
        distances = (
            tf.reduce_sum(x**2, axis=1, keepdims=True)
            + tf.reduce_sum(self.codes**2, axis=0)
            - 2 * tf.matmul(x, self.codes)
        )
        chosen = tf.one_hot(tf.argmin(distances, axis=1), 6)
        quantized = tf.matmul(chosen, self.codes, transpose_b=True)
        commitment = tf.reduce_mean((tf.stop_gradient(quantized) - x) ** 2)
        codebook = tf.reduce_mean((quantized - tf.stop_gradient(x)) ** 2)
        self.add_loss(0.25 * commitment + codebook)
        return x + tf.stop_gradient(quantized - x)


@case("added losses", X)
def vector_quantizer():
    return functional(VectorQuantizer(), X, layers.Dense(2))


class Divergence(layers.Layer):
    """The KL divergence of a VAE's code, which is its mean in inference."""

    def call(self, inputs):
        mean, log_variance = inputs
        loss = 1 + log_variance - tf.square(mean) - tf.exp(log_variance)
        self.add_loss(-0.5 * tf.reduce_mean(tf.reduce_sum(loss, axis=1)))
        return mean


@case("added losses", X)
def divergence():
    x = keras.Input((4,))
    code = Divergence()([layers.Dense(3)(x), layers.Dense(3)(x)])
    return keras.Model(x, layers.Dense(2)(code))


class Switch(layers.Layer):
    """The router of a switch transformer, and its load balancing."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.router = layers.Dense(3)
        self.experts = [layers.Dense(4) for _ in range(3)]

    def call(self, x):
        probabilities = tf.nn.softmax(self.router(x))
        chosen = tf.one_hot(tf.argmax(probabilities, axis=-1), 3)
        density = tf.reduce_mean(chosen, axis=0)
        proxy = tf.reduce_mean(probabilities, axis=0)
        self.add_loss(tf.reduce_mean(proxy * density) * 9.0)
        outputs = tf.stack([expert(x) for expert in self.experts], axis=1)
        weights = (chosen * probabilities)[:, :, None]
        return tf.reduce_sum(outputs * weights, axis=1)


@case("added losses", X)
def load_balancing():
    return functional(Switch(), X)


class Autoencoder(keras.Model):
    """A variational autoencoder whose code is drawn."""

    def __init__(self):
        super().__init__()
        self.mean, self.log_variance = layers.Dense(2), layers.Dense(2)
        self.decoder = layers.Dense(4)

    def call(self, x):
        mean, log_variance = self.mean(x), self.log_variance(x)
        loss = 1 + log_variance - tf.square(mean) - tf.exp(log_variance)
        self.add_loss(-0.5 * tf.reduce_mean(loss))
        noise = tf.random.normal(tf.shape(mean))
        return self.decoder(mean + tf.exp(0.5 * log_variance) * noise)


@case("added losses", X, random=(0,), trains=False)
def autoencoder():
    return Autoencoder()


class Endpoint(layers.Layer):
    """keras.io's CTC endpoint: a loss for each example."""

    def call(self, inputs):
        labels, predicted = inputs
        sizes = tf.ones((tf.shape(labels)[0], 1), "int32")
        times, letters = sizes * predicted.shape[1], sizes * labels.shape[1]
        loss = keras.backend.ctc_batch_cost(labels, predicted, times, letters)
        self.add_loss(loss)
        return predicted


LABELS = spec(2, dtype="int32", low=0, high=2)


@case("added losses", [spec(5, 4), LABELS])
def ctc_endpoint():
    x, labels = keras.Input((5, 4)), keras.Input((2,), dtype="int32")
    predicted = layers.Dense(3, activation="softmax")(x)
    return keras.Model([x, labels], Endpoint()([labels, predicted]))


class Confidence(layers.Layer):
    """A penalty that is negative."""

    def call(self, x):
        p = tf.nn.softmax(x)
        self.add_loss(0.5 * tf.reduce_mean(tf.reduce_sum(p * tf.math.log(p), axis=-1)))
        return p


@case("added losses", X)
def negative_loss():
    x = keras.Input((4,))
    return keras.Model(x, Confidence()(layers.Dense(3)(x)))


class Outer(layers.Layer):
    """A loss of its own, and one of a layer in it."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inner, self.dense = VectorQuantizer(), layers.Dense(3)

    def call(self, x):
        y = self.dense(self.inner(x))
        self.add_loss(0.1 * tf.reduce_mean(tf.abs(y)))
        return y


@case("added losses", X)
def loss_in_a_loss():
    return functional(Outer(), X)


# `stateless_call` of Keras 3 forgets the first of two losses of a layer.
@case("added losses", X, trains=False)
def called_twice():
    x, layer = keras.Input((4,)), VectorQuantizer()
    first = layer(x)
    return keras.Model(x, layer(layers.Dense(4)(first)))


class Scaled(layers.Layer):
    def build(self, shape):
        self.scale = self.add_weight("scale", shape[1:], initializer="ones")

    def call(self, x):
        return x * self.scale


@case("added losses", X)
def activity_regularizer():
    return functional(Scaled(activity_regularizer=regularizers.L2(0.3)), X)


class Inside(layers.Layer):
    """A stock layer in it has an activity regularizer."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(3, activity_regularizer=regularizers.L1(0.2))

    def call(self, x):
        return tf.nn.relu(self.dense(x))


@case("added losses", X)
def activity_regularizer_inside():
    return functional(Inside(), X)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense, self.quantizer = layers.Dense(4), VectorQuantizer()

    def call(self, x):
        y = self.dense(x)
        self.add_loss(0.5 * tf.reduce_mean(tf.square(y)))
        return self.quantizer(y)


@case("added losses", X)
def subclassed_with_losses():
    return Subclassed()


class Warned(layers.Layer):
    """A loss in training only."""

    def call(self, x, training=None):
        if training:
            self.add_loss(tf.reduce_mean(tf.square(x)))
        return 2 * x


@case("added losses", X, trains=False)
def loss_in_training_only():
    return functional(Warned(), X)


# Regularizers of weights.


def quartic(weight):
    return 0.1 * tf.reduce_sum(weight**4)


def mean_square(weight):
    return 0.3 * tf.reduce_mean(weight**2)


class Regularized(layers.Layer):
    def __init__(self, regularizer, **kwargs):
        super().__init__(**kwargs)
        self.regularizer = regularizer

    def build(self, shape):
        self.kernel = self.add_weight(
            "kernel", (shape[-1], 3), regularizer=self.regularizer
        )

    def call(self, x):
        return tf.matmul(x, self.kernel)


# A kernel of 12 weights, and one of 60, of which a mean is not what a sum is.
for key, regularizer, x in (
    ("l1", regularizers.l1(0.1), X),
    ("both", regularizers.l1_l2(0.1, 0.2), X),
    ("l2", regularizers.l2(0.2), LONG),
    ("own", quartic, LONG),
    ("mean", mean_square, LONG),
):
    make = lambda own=regularizer, x=x: functional(Regularized(own), x)
    make.__name__ = "regularized_by_" + key
    case("regularizers", x)(make)


class Deep(layers.Layer):
    """DeepFM's embeddings and cross weights."""

    def build(self, shape):
        self.table = self.add_weight("table", (6, 4), regularizer=regularizers.l2(0.1))
        self.scale = self.add_weight("scale", (4,), regularizer=regularizers.l1(0.2))

    def call(self, x):
        return tf.gather(self.table, x) * self.scale


@case("regularizers", spec(3, dtype="int32", low=0, high=6))
def regularized_table_and_scale():
    return functional(Deep(), spec(3, dtype="int32", low=0, high=6))


class Orthogonal(regularizers.Regularizer):
    def __init__(self, factor=0.1):
        self.factor = factor

    def __call__(self, weight):
        product = tf.matmul(weight, weight, transpose_a=True)
        return self.factor * tf.reduce_sum(tf.square(product - tf.eye(3)))

    def get_config(self):
        return {"factor": self.factor}


@case("regularizers", X)
def regularized_by_a_class():
    return functional(Regularized(Orthogonal()), X)


# What happens in training only.


class ByOps(layers.Layer):
    def __init__(self, drop, **kwargs):
        super().__init__(**kwargs)
        self.drop, self.dense = drop, layers.Dense(4)

    def call(self, x, training=None):
        y = self.dense(x)
        if training:
            y = self.drop(y)
        return x + y


def drop_path(x):
    """Stochastic depth, as in keras.io's compact transformers."""
    shape = (tf.shape(x)[0],) + (1,) * (x.shape.rank - 1)
    return (x / 0.7) * tf.floor(0.7 + tf.random.uniform(shape, 0, 1))


for key, drop in {
    "dropout": lambda x: tf.nn.dropout(x, 0.4),
    "dropout_of_rows": lambda x: tf.nn.dropout(x, 0.4, [tf.shape(x)[0], 1, 4]),
    "drop_path": drop_path,
    "gaussian_noise": lambda x: x + tf.random.normal(tf.shape(x), stddev=0.5),
}.items():
    make = lambda own=drop: functional(ByOps(own), SEQUENCE)
    make.__name__ = key + "_by_ops"
    case("training", SEQUENCE, trains=False)(make)


class Seeded(layers.Layer):
    """Numbers that a seed stands for, which are the same each time."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(2)

    def call(self, x):
        normal = tf.random.stateless_normal([4, 7], [3, 5], 1.0, 0.5)
        cut = tf.random.stateless_truncated_normal([4, 7], [-3, 2**31 - 1])
        uniform = tf.random.stateless_uniform([7], [0, 8], -1.0, 2.0)
        columns = tf.random.stateless_uniform([5], [3, 5], 0, 7, dtype=tf.int32)
        y = tf.matmul(x, normal) + tf.matmul(tf.square(x), cut) + uniform
        return self.dense(tf.gather(y, columns, axis=1))


@case("training", X)
def seeded():
    return functional(Seeded(), X)


class OfGenerator(layers.Layer):
    """Noise of a `tf.random.Generator`."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.generator = tf.random.Generator.from_seed(3)
        self.dense = layers.Dense(4)

    def call(self, x, training=None):
        y = self.dense(x)
        if training:
            y = y + self.generator.normal(tf.shape(x), stddev=0.5)
        return x + y


@case("training", SEQUENCE, trains=False)
def generator_noise_by_ops():
    return functional(OfGenerator(), SEQUENCE)


class WithDropout(layers.Layer):
    """A transformer's block, its dropouts stock layers."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.attention = layers.Dense(4)
        self.dropout = layers.Dropout(0.5)

    def call(self, x, training=None):
        return x + self.dropout(tf.nn.relu(self.attention(x)), training=training)


@case("training", SEQUENCE, trains=False)
def dropout_inside():
    return functional(WithDropout(), SEQUENCE)


images = getattr(layers, "experimental", layers)
images = getattr(images, "preprocessing", layers)
PICTURES = spec(6, 6, 3)


class Augmented(layers.Layer):
    """A layer of images that changes them before it looks at them."""

    def __init__(self, change, **kwargs):
        super().__init__(**kwargs)
        self.change = change
        self.look = layers.Dense(2)

    def call(self, x, training=None):
        return self.look(self.change(x, training=training))


@case("training", PICTURES, trains=False)
def random_flip_inside():
    return functional(Augmented(images.RandomFlip("horizontal")), PICTURES)


@case("training", PICTURES, trains=False)
def random_crop_inside():
    return functional(Augmented(images.RandomCrop(4, 4)), PICTURES)


class Block(layers.Layer):
    """A transformer's encoder, its dropouts ops beside stock normalizations."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.query, self.key, self.value = (layers.Dense(4) for _ in range(3))
        self.first, self.second = layers.LayerNormalization(), layers.Dense(4)
        self.normalization = layers.BatchNormalization()

    def call(self, x, training=None):
        scores = tf.matmul(self.query(x), self.key(x), transpose_b=True)
        weights = tf.nn.softmax(scores / 2.0)
        if training:
            weights = tf.nn.dropout(weights, 0.25)
        x = self.first(x + tf.matmul(weights, self.value(x)))
        y = self.second(x)
        if training:
            y = tf.nn.dropout(y, 0.5)
        return self.normalization(x + y, training=training)


@case("training", SEQUENCE, trains=False)
def encoder_with_dropout():
    return functional(Block(), SEQUENCE)


class MovingStatistics(layers.Layer):
    """BatchNormalization by hand."""

    def build(self, shape):
        self.gamma = self.add_weight("gamma", shape[-1:], initializer="ones")
        self.beta = self.add_weight("beta", shape[-1:], initializer="zeros")
        kwargs = {"trainable": False, "initializer": "ones"}
        self.mean = self.add_weight("moving_mean", shape[-1:], **kwargs)
        self.variance = self.add_weight("moving_variance", shape[-1:], **kwargs)

    def call(self, x, training=None):
        if training:
            mean, variance = tf.nn.moments(x, [0])
            self.mean.assign(self.mean * 0.9 + mean * 0.1)
            self.variance.assign(self.variance * 0.9 + variance * 0.1)
        else:
            mean, variance = self.mean, self.variance
        return self.gamma * (x - mean) / tf.sqrt(variance + 1e-3) + self.beta


@case("training", X, trains=False)
def normalization_by_hand():
    return functional(MovingStatistics(), X)


# Gradients, and what only training needs.


@tf.custom_gradient
def binary(x):
    """Return the sign, with the gradient of a clipped identity."""
    return tf.sign(x), lambda dy: tf.where(tf.abs(x) <= 0.5, dy, tf.zeros_like(dy))


class BinaryDense(layers.Layer):
    """A layer of a binary network."""

    def build(self, shape):
        self.kernel = self.add_weight("kernel", (shape[-1], 3))

    def call(self, x):
        return tf.matmul(tf.nn.swish(x), binary(self.kernel))


@case("gradients", X)
def binary_dense():
    return functional(BinaryDense(), X, layers.Dense(2))


class SwishDense(layers.Layer):
    """A layer whose gradient is what it would be anyway."""

    def build(self, shape):
        self.kernel = self.add_weight("kernel", (shape[-1], 3))

    def call(self, x):
        return tf.nn.swish(tf.matmul(x, self.kernel))


@case("gradients", X)
def swish_dense():
    return functional(SwishDense(), X, layers.Dense(2))


def drawn(shape, dtype=None):
    return tf.ones(shape, dtype)


@case("initializers", X)
def function_as_initializer():
    dense = layers.Dense(3, kernel_initializer=drawn, kernel_constraint=tf.nn.relu)
    return functional(dense, X)


class Bernoulli(layers.Layer):
    """Dropout by samples of Bernoulli, with the gradient it has anyway."""

    @tf.custom_gradient
    def dropped(self, x):
        shape = tf.concat([tf.shape(x), tf.constant([], "int32")], 0)
        draws = tf.random.uniform([tf.reduce_prod(shape)]) < 0.75
        kept = tf.reshape(tf.cast(draws, "int32"), tf.concat([tf.shape(x), []], 0))
        mask = tf.cast(1 - kept, "bool")
        zero, scale = tf.constant(0.0), tf.constant(1 / 0.75)

        def gradient(upstream):
            return tf.where(mask, zero, upstream) * scale

        return tf.where(mask, zero, x) * scale, gradient

    def call(self, x, doubled=True, training=False):
        x = 2 * x if doubled else x
        return self.dropped(x) if training else x


@case("dropout", LONG, trains=False)
def bernoulli_dropout_and_a_switch():
    """Its other switch is True in inference, too."""
    x = keras.Input((20,))
    y = Bernoulli()(layers.Dense(20)(x), doubled=True)
    return keras.Model(x, layers.Dense(20)(y))
