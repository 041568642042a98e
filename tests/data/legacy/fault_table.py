"""Models that were once rebuilt wrongly without a word: written by `write_lost.py`.

What `lost_table.py` says of its functions holds here, too.
"""

import math

import tensorflow as tf
from lost_table import entry, functional, ids, registering, spec

keras = tf.keras
layers = keras.layers
CASES = {}
HAS_DISTRIBUTIONS = True
case = registering(CASES)
X = spec(4)
SQUARE, OBLONG, ANY = spec(4, 4), spec(5, 4), spec(None, 4)


# Tensors that are given by keywords.


class DistanceLayer(layers.Layer):
    """keras.io's siamese network."""

    def call(self, anchor, positive, negative):
        ap_distance = tf.reduce_sum(tf.square(anchor - positive), -1)
        an_distance = tf.reduce_sum(tf.square(anchor - negative), -1)
        return ap_distance, an_distance


def siamese(call):
    inputs = [keras.Input((4,), name=n) for n in ("anchor", "positive", "negative")]
    embedding = keras.Sequential([layers.Dense(3, input_shape=(4,))], name="embedding")
    return keras.Model(inputs, call(DistanceLayer(), *map(embedding, inputs)))


@case("keywords", [X, X, X])
def siamese_of_keywords():
    return siamese(lambda layer, a, p, n: layer(anchor=a, positive=p, negative=n))


@case("keywords", [X, X, X])
def siamese_of_keywords_in_another_order():
    return siamese(lambda layer, a, p, n: layer(a, negative=n, positive=p))


@case("keywords", [X, X, X])
def siamese_of_positions():
    return siamese(lambda layer, a, p, n: layer(a, p, n))


class Weighted(layers.Layer):
    """The names of its arguments are not in alphabetical order, nor their calls."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(3)

    def call(self, x, scale, bias, factor=1.0):
        return self.dense(x) * scale + factor * bias


@case("keywords", [X, spec(3), spec(3)])
def keywords_and_a_number():
    x, scale, bias = entry([X, spec(3), spec(3)])
    return keras.Model(
        [x, scale, bias], Weighted()(x, bias=bias, factor=3.0, scale=scale)
    )


class Caller(layers.Layer):
    """Calls a layer that is lost by keywords."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.one, self.other = layers.Dense(3), layers.Dense(3)
        self.weighted = Weighted()

    def call(self, x):
        return self.weighted(bias=self.one(x), scale=self.other(x), x=x)


@case("keywords", X)
def keywords_inside():
    return functional(Caller(), X)


# Stock layers with a mask, in layers that are lost.


def causal_attention_mask(batch_size, n_dest, n_src, dtype):
    """Of keras.io's mini GPT."""
    i = tf.range(n_dest)[:, None]
    j = tf.range(n_src)
    mask = tf.cast(i >= j - n_src + n_dest, dtype)
    mask = tf.reshape(mask, [1, n_dest, n_src])
    multiples = tf.concat(
        [tf.expand_dims(batch_size, -1), tf.constant([1, 1], dtype=tf.int32)], 0
    )
    return tf.tile(mask, multiples)


class CausalBlock(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.att = layers.MultiHeadAttention(2, 4)
        self.norm = layers.LayerNormalization(epsilon=1e-6)

    def call(self, inputs):
        shape = tf.shape(inputs)
        mask = causal_attention_mask(shape[0], shape[1], shape[1], tf.bool)
        return self.norm(inputs + self.att(inputs, inputs, attention_mask=mask))


@case("attention mask", SQUARE)
def attention_mask_square():
    """The length equals the width, so that a mask has the shape of the values."""
    return functional(CausalBlock(), SQUARE)


@case("attention mask", OBLONG)
def attention_mask_oblong():
    return functional(CausalBlock(), OBLONG)


@case("attention mask", ANY)
def attention_mask_any():
    return functional(CausalBlock(), ANY)


class DecoderAttention(layers.Layer):
    """keras.io's translator: a mask of the padding and of what comes later."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.attention = layers.MultiHeadAttention(1, 3)

    def call(self, inputs):
        x, tokens = inputs
        padding = tf.cast(tokens[:, tf.newaxis, :] > 0, tf.int32)
        ones = tf.ones_like(tf.matmul(x, x, transpose_b=True))
        causal = tf.cast(tf.linalg.band_part(ones, -1, 0), tf.int32)
        itself = tf.cast(tf.linalg.band_part(ones, 0, 0), tf.int32)
        mask = tf.maximum(tf.minimum(padding, causal), itself)
        return self.attention(query=x, value=x, key=x, attention_mask=mask)


@case("attention mask", [SQUARE, ids(4)])
def decoder_mask_square():
    return functional(DecoderAttention(), [SQUARE, ids(4)])


@case("attention mask", [OBLONG, ids(5)])
def decoder_mask_oblong():
    return functional(DecoderAttention(), [OBLONG, ids(5)])


class PaddedAttention(layers.Layer):
    """Query, value and key differ, and the mask is one of columns."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.attention, self.key = layers.MultiHeadAttention(1, 3), layers.Dense(4)

    def call(self, inputs):
        x, tokens = inputs
        mask = tf.cast(tokens[:, tf.newaxis, :] > 0, tf.int32)
        value, key = x[:, ::-1], self.key(x)
        return self.attention(x, value, attention_mask=mask, key=key)


@case("attention mask", [OBLONG, ids(5)])
def padding_mask():
    return functional(PaddedAttention(), [OBLONG, ids(5)])


class MaskedSoftmax(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense, self.softmax = layers.Dense(4), layers.Softmax()

    def call(self, x):
        return self.softmax(self.dense(x), x < tf.reduce_max(x, -1, keepdims=True))


@case("attention mask", X)
def softmax_mask():
    return functional(MaskedSoftmax(), X)


# Classes of a stock layer's name that are others.


class Own:
    """Holds the classes whose names are those of stock layers."""

    class MultiHeadAttention(layers.Layer):
        """tensorflow.org's, of 2019."""

        def __init__(self, d_model, num_heads, **kwargs):
            super().__init__(**kwargs)
            self.d_model, self.num_heads = d_model, num_heads
            self.depth = d_model // num_heads
            self.wq, self.wk, self.wv = (layers.Dense(d_model) for _ in range(3))
            self.dense = layers.Dense(d_model)

        def split_heads(self, x, batch_size):
            x = tf.reshape(x, (batch_size, -1, self.num_heads, self.depth))
            return tf.transpose(x, perm=[0, 2, 1, 3])

        def call(self, q, k=None, v=None):
            k, v = q if k is None else k, q if v is None else v
            size = tf.shape(q)[0]
            q = self.split_heads(self.wq(q), size)
            k = self.split_heads(self.wk(k), size)
            v = self.split_heads(self.wv(v), size)
            logits = tf.matmul(q, k, transpose_b=True) / math.sqrt(self.depth)
            y = tf.matmul(tf.nn.softmax(logits, axis=-1), v)
            y = tf.transpose(y, perm=[0, 2, 1, 3])
            return self.dense(tf.reshape(y, (size, -1, self.d_model)))

        def get_config(self):
            config = super().get_config()
            return dict(config, d_model=self.d_model, num_heads=self.num_heads)

    class LayerNormalization(layers.Layer):
        """keras-layer-normalization's, with epsilon outside of the root."""

        def __init__(self, epsilon=0.1, center=True, scale=True, **kwargs):
            super().__init__(**kwargs)
            self.epsilon, self.center, self.scale = epsilon, center, scale

        def build(self, shape):
            size = (int(shape[-1]),)
            self.gamma = self.add_weight("gamma", size, initializer="ones")
            self.beta = self.add_weight("beta", size, initializer="zeros")

        def call(self, x):
            mean = tf.reduce_mean(x, -1, keepdims=True)
            std = tf.math.reduce_std(x, -1, keepdims=True)
            return self.gamma * (x - mean) / (std + self.epsilon) + self.beta

        def get_config(self):
            own = {"epsilon": self.epsilon, "center": self.center, "scale": self.scale}
            return dict(super().get_config(), **own)

    class Attention(layers.Layer):
        """A pooling over time, as in a hundred notebooks."""

        def build(self, shape):
            self.w = self.add_weight("w", (int(shape[-1]), 1))
            self.b = self.add_weight("b", (int(shape[1]), 1))

        def call(self, x):
            scores = tf.tanh(tf.tensordot(x, self.w, 1) + self.b)
            return tf.reduce_sum(x * tf.nn.softmax(scores, axis=1), axis=1)

    class OrthogonalRegularizer(keras.regularizers.Regularizer):
        """keras.io's PointNet's."""

        def __init__(self, num_features, l2reg=0.1):
            self.num_features, self.l2reg = num_features, l2reg
            self.eye = tf.eye(num_features)

        def __call__(self, x):
            x = tf.reshape(x, (-1, self.num_features, self.num_features))
            xxt = tf.tensordot(x, x, axes=(2, 2))
            xxt = tf.reshape(xxt, (-1, self.num_features, self.num_features))
            return tf.reduce_sum(self.l2reg * tf.square(xxt - self.eye))

        def get_config(self):
            return {"num_features": self.num_features, "l2reg": self.l2reg}


class RootMeanSquare:
    class LayerNormalization(layers.Layer):
        """Nothing is centered, and there is no beta."""

        def build(self, shape):
            self.gamma = self.add_weight("gamma", (int(shape[-1]),), initializer="ones")

        def call(self, x):
            square = tf.reduce_mean(tf.square(x), -1, keepdims=True)
            return x * tf.math.rsqrt(square + 1e-3) * self.gamma


class SameConfig:
    class OrthogonalRegularizer(keras.regularizers.Regularizer):
        """BigGAN's, with a config that Keras's takes."""

        def __init__(self, factor=0.1, mode="columns"):
            self.factor, self.mode = factor, mode

        def __call__(self, w):
            gram = tf.matmul(w, w, transpose_a=True)
            return self.factor * tf.reduce_sum(tf.square(gram - tf.eye(w.shape[-1])))

        def get_config(self):
            return {"factor": self.factor, "mode": self.mode}


@case("stock name", OBLONG)
def own_multi_head_attention():
    return functional(Own.MultiHeadAttention(4, 2), OBLONG)


class Holder(layers.Layer):
    def __init__(self, layer, **kwargs):
        super().__init__(**kwargs)
        self.inner = layer

    def call(self, x):
        return x + self.inner(x)


@case("stock name", OBLONG)
def own_multi_head_attention_inside():
    return functional(Holder(Own.MultiHeadAttention(4, 2)), OBLONG)


@case("stock name", X)
def own_layer_normalization():
    return functional(Own.LayerNormalization(), X, layers.Dense(2))


@case("stock name", OBLONG)
def own_layer_normalization_inside():
    return functional(Holder(Own.LayerNormalization()), OBLONG)


@case("stock name", X)
def own_rms_normalization():
    return functional(RootMeanSquare.LayerNormalization(), X, layers.Dense(2))


@case("stock name", OBLONG)
def own_rms_normalization_inside():
    return functional(Holder(RootMeanSquare.LayerNormalization()), OBLONG)


@case("stock name", OBLONG)
def own_attention_layer():
    return functional(Own.Attention(), OBLONG, layers.Dense(2))


# Training goes without a regularizer that is lost; `losses` says what it added.
@case("stock name", X, trains=False)
def own_orthogonal_regularizer():
    regularizer = Own.OrthogonalRegularizer(3)
    dense = layers.Dense(9, activity_regularizer=regularizer)
    return functional(dense, X, layers.Reshape((3, 3)))


@case("stock name", X, trains=False)
def own_orthogonal_kernel():
    dense = layers.Dense(3, kernel_regularizer=SameConfig.OrthogonalRegularizer())
    return functional(dense, X)


# Dicts of inputs and outputs.


NUMBERS = {"b": spec(1), "a": spec(2)}
FEATURES = dict(NUMBERS, c=ids(1, high=3))


def sequential_of(features):
    return keras.Sequential(
        [layers.DenseFeatures(features), layers.Dense(3, "tanh"), layers.Dense(1)]
    )


def numeric():
    column = tf.feature_column.numeric_column
    return [column("b"), column("a", shape=(2,))]


@case("dict of inputs", NUMBERS)
def sequential_of_numbers():
    return sequential_of(numeric())


@case("dict of inputs", FEATURES)
def sequential_of_features():
    columns = tf.feature_column
    kind = columns.categorical_column_with_identity("c", 3)
    return sequential_of(numeric() + [columns.indicator_column(kind)])


@case("dict of outputs", X)
def unsorted_outputs():
    """All stock: a Functional model."""
    x = keras.Input((4,))
    hidden = layers.Dense(3, "relu")(x)
    outputs = {"score": layers.Dense(2)(hidden), "area": layers.Dense(2)(hidden)}
    return keras.Model(x, outputs)


@case("dict of outputs", X)
def unsorted_outputs_of_lost_layer():
    class Heads(layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.dense = layers.Dense(2)

        def call(self, x):
            y = self.dense(x)
            return {"mean": y, "deviation": tf.exp(y)}

    x = keras.Input((4,))
    found = Heads()(x)
    return keras.Model(x, {"z": found["mean"], "deviation": found["deviation"]})


@case("dict of outputs", X)
def unsorted_outputs_of_class():
    class TwoHeads(keras.Model):
        def __init__(self):
            super().__init__()
            self.first, self.second = layers.Dense(2), layers.Dense(2)

        def call(self, x):
            return {"score": self.first(x), "area": self.second(x)}

    return TwoHeads()


@case("dict of outputs", {"query": X, "document": X})
def unsorted_inputs_and_outputs():
    """A class of two towers, whose functions take and return dicts."""

    class Towers(layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.query, self.document = layers.Dense(3), layers.Dense(3)

        def call(self, inputs):
            query, document = inputs["query"], inputs["document"]
            return {"q": self.query(query), "d": self.document(document)}

    inputs = {"query": keras.Input((4,), name="query")}
    inputs["document"] = keras.Input((4,), name="document")
    return keras.Model(inputs, Towers()(inputs))


# Dropout that drops in inference.


@case("Monte Carlo", X, random=(0,), trains=False)
def monte_carlo():
    x = keras.Input((4,))
    hidden = layers.Dense(8, "relu")(x)
    dropped = layers.Dropout(0.5)(hidden, training=True)
    return keras.Model(x, layers.Dense(2)(dropped))


class AlwaysDropped(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense, self.dropout = layers.Dense(8, "relu"), layers.Dropout(0.5)

    def call(self, x):
        return self.dropout(self.dense(x), training=True)


@case("Monte Carlo", X, random=(0,), trains=False)
def monte_carlo_inside():
    return functional(AlwaysDropped(), X, layers.Dense(2))


class AlwaysDroppedByNN(AlwaysDropped):
    def call(self, x):
        return tf.nn.dropout(self.dense(x), 0.5)


@case("Monte Carlo", X, random=(0,), trains=False)
def monte_carlo_of_functions():
    return functional(AlwaysDroppedByNN(), X, layers.Dense(2))


@case("Monte Carlo", X, random=(0,), trains=False)
def monte_carlo_of_class():
    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.first, self.last = layers.Dense(8, "relu"), layers.Dense(2)
            self.dropout = layers.Dropout(0.5)

        def call(self, x, training=None):
            return self.last(self.dropout(self.first(x), training=True))

    return Net()


# Names of calls.


class Gain(layers.Layer):
    def call(self, x):
        return tf.sin(x) * 2.0


class Turn(layers.Layer):
    """It calls an op that has no counterpart."""

    def call(self, x):
        return tf.raw_ops.ImageProjectiveTransformV3(
            images=x,
            transforms=[[0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]],
            output_shape=[4, 4],
            fill_value=0.0,
            interpolation="NEAREST",
        )


@case("names", spec(4, 4, 1), since=(2, 15), trains=False)
def name_of_a_second_call():
    """The name of `gain_1` is that of the scope of a second call of `gain`."""
    x = entry(spec(4, 4, 1))
    return keras.Model(x, [Gain(name="gain")(x), Turn(name="gain_1")(x)])


# What the functions of layers do not show.


class SumOfWords(layers.Layer):
    """It reads the mask of its input itself, as the layers of KerasNLP do."""

    def call(self, x):
        mask = getattr(x, "_keras_mask", None)
        if mask is not None:
            x *= tf.cast(mask, x.dtype)[..., tf.newaxis]
        return tf.reduce_sum(x, 1)


@case("mask", ids(5), trains=False)
def mask_read_from_a_tensor():
    x = entry(ids(5))
    words = layers.Embedding(6, 3, mask_zero=True)(x)
    return keras.Model(x, layers.Dense(2)(SumOfWords()(words)))


class CrossAttention(layers.Layer):
    """That of tensorflow.org/text/tutorials/nmt_with_attention, of translators."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.mha = layers.MultiHeadAttention(num_heads=1, key_dim=4)
        self.norm = layers.LayerNormalization()

    def call(self, x, context):
        return self.norm(x + self.mha(query=x, value=context))


class Translator(keras.Model):
    """MultiHeadAttention reads masks that the functions do not have."""

    def __init__(self):
        super().__init__()
        self.source = layers.Embedding(11, 4, mask_zero=True)
        self.target = layers.Embedding(9, 4, mask_zero=True)
        self.encoder = layers.GRU(4, return_sequences=True)
        self.attention, self.head = CrossAttention(), layers.Dense(9)

    def call(self, inputs):
        source, target = inputs
        context = self.encoder(self.source(source))
        return self.head(self.attention(self.target(target), context))


WORDS = [ids(5, high=2), ids(5, high=2)]  # of which many are padding


@case("mask", WORDS, since=(2, 10), trains=False)
def masks_of_a_translator():
    return Translator()


@case("mask", WORDS, since=(2, 10), trains=False)
def masks_of_cross_attention():
    source, target = entry(WORDS)
    context = layers.GRU(4, return_sequences=True)(
        layers.Embedding(11, 4, mask_zero=True)(source)
    )
    x = layers.Embedding(9, 4, mask_zero=True)(target)
    x = CrossAttention()(x, context)
    return keras.Model([source, target], layers.Dense(9)(x))


@case("mask", WORDS, since=(2, 10), trains=False)
def masks_of_stock_attention():
    source, target = entry(WORDS)
    context = layers.Embedding(11, 4, mask_zero=True)(source)
    x = layers.Embedding(9, 4, mask_zero=True)(target)
    x = layers.MultiHeadAttention(num_heads=1, key_dim=4)(x, context)
    return keras.Model([source, target], layers.Dense(9)(x))


class Recentred(layers.Layer):
    """It reads what it has just assigned to its variables, in inference, too."""

    def build(self, shape):
        self.mean = self.add_weight("mean", (4,), trainable=False)
        self.scale = self.add_weight("scale", (4,))

    def call(self, x):
        self.mean.assign(tf.reduce_mean(x, axis=0))
        self.mean.assign_add(tf.ones(4))
        self.scale.assign(tf.clip_by_value(self.scale, 0.2, 0.4))
        return (x - self.mean) * self.scale


@case("assignments", X)
def assigned_before_read():
    return functional(layers.Dense(4), X, Recentred(), layers.Dense(2))


class Rescaled(layers.Layer):
    """It looks words up in a table that it has just assigned."""

    def build(self, shape):
        self.table = self.add_weight("table", (6, 3))
        self.scaled = self.add_weight("scaled", (6, 3), trainable=False)

    def call(self, words):
        scale = tf.reduce_mean(tf.cast(words, tf.float32))
        self.scaled.assign(self.table * scale)
        return tf.nn.embedding_lookup(self.scaled, words)


@case("assignments", ids(5, high=6), since=(2, 15), trains=False)
def assigned_before_lookup():
    return functional(Rescaled(), ids(5, high=6), layers.Dense(2))


class Flipped(layers.Layer):
    """It flips at random, also in inference, as the layers of KerasCV do."""

    def call(self, x):
        chance = tf.ones(tf.shape(x)) * tf.random.uniform((tf.shape(x)[0], 1))
        return tf.where(chance > 0.5, tf.reverse(x, [1]), x)


@case("random", X, since=(2, 15), random=(0,), trains=False)
def mask_of_random_numbers():
    """The mean of the numbers says nothing of a choice by them."""
    return functional(Flipped(), X, layers.Dense(2))


class Kept(layers.Layer):
    """It keeps steps at random, also in inference, as masked autoencoders do."""

    def call(self, x):
        order = tf.argsort(tf.random.uniform(tf.shape(x)[:2]), axis=1)
        return tf.gather(x, order[:, :2], batch_dims=1)


@case("random", SQUARE, since=(2, 15), random=(0,), trains=False)
def order_of_random_numbers():
    return functional(Kept(), SQUARE, layers.Dense(2))
