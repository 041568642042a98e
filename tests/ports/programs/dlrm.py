"""NVIDIA's DLRM: embeddings and dense layers, with an optimizer and a rate for each.

The gradients of the embeddings are sparse, and pass through the loss scale as such.
With `own_scaling` the optimizer is a subclass that unscales in its own way.
"""

import numpy as np

from programs.world import Log, current_scale, fill, keras, mp, tf

STEPS = 6
SIZES = 7, 11


class Recommender(keras.Model):
    """Multiplies embeddings of categories with features, pair by pair."""

    def __init__(self):
        super().__init__()
        self.tables = [keras.layers.Embedding(size, 4) for size in SIZES]
        self.bottom = keras.layers.Dense(4, activation="relu")
        self.top = [
            keras.layers.Dense(8, activation="relu"),
            keras.layers.Dense(1, dtype="float32"),
        ]

    def call(self, inputs):
        numbers, categories = inputs
        vectors = [self.bottom(numbers)]
        for place, table in enumerate(self.tables):
            vectors.append(tf.cast(table(categories[:, place]), "float16"))
        stacked = tf.stack(vectors, 1)
        products = tf.matmul(stacked, stacked, transpose_b=True)
        pairs = [products[:, 0, 1], products[:, 0, 2], products[:, 1, 2]]
        x = tf.concat([vectors[0], tf.stack(pairs, 1)], 1)
        for layer in self.top:
            x = layer(x)
        return x[:, 0]


class OwnScaling(mp.LossScaleOptimizer):
    """Divides in float32 and gives dense gradients."""

    def get_unscaled_gradients(self, grads):
        scale = tf.cast(current_scale(self), tf.float32)
        return [tf.cast(tf.convert_to_tensor(g), tf.float32) / scale for g in grads]


def rate_of(step):
    return 0.2 * min(1.0, (step + 1) / 3)


def run(own_scaling=False):
    mp.set_policy("mixed_float16")
    rng = np.random.RandomState(0)
    numbers = tf.constant(rng.randn(16, 3), tf.float32)
    categories = tf.constant(
        np.stack([rng.randint(0, size, 16) for size in SIZES], 1), tf.int32
    )
    clicked = tf.constant(rng.randint(0, 2, 16), tf.float32)
    model = Recommender()
    model((numbers, categories))
    fill(6, model)
    wrapper = OwnScaling if own_scaling else mp.LossScaleOptimizer
    of_tables = wrapper(keras.optimizers.SGD(0.2), 1024)
    of_dense = wrapper(keras.optimizers.SGD(0.2), 1024)
    tables = [v for table in model.tables for v in table.trainable_variables]
    dense = [*model.bottom.trainable_variables]
    dense += [v for layer in model.top for v in layer.trainable_variables]

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            logits = model((numbers, categories))
            entropy = tf.nn.sigmoid_cross_entropy_with_logits(clicked, logits)
            loss = tf.reduce_mean(entropy)
            scaled_loss = of_dense.get_scaled_loss(loss)
        gradients = tape.gradient(scaled_loss, tables + dense)
        sparse, full = gradients[: len(tables)], gradients[len(tables) :]
        sparse = of_tables.get_unscaled_gradients(sparse)
        full = of_dense.get_unscaled_gradients(full)
        of_tables.apply_gradients(zip(sparse, tables))
        of_dense.apply_gradients(zip(full, dense))
        return loss

    log = Log(model)
    for index in range(STEPS):
        of_tables.learning_rate = rate_of(index)
        of_dense.learning_rate = rate_of(index)
        log.add(step(), of_tables, of_dense)
    return log.result()
