"""Accumulated gradients: three small batches for each update, unscaled one by one.

One of the batches overflows, and the update that it belongs to is skipped. With
`lazy` the gradients come from a generator.
"""

import numpy as np

from programs.world import DynamicLossScale, Log, fill, keras, mp, tf

UPDATES = 4
EACH = 3


def run(lazy=False):
    mp.set_policy("mixed_float16")
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(6, activation="tanh"),
            keras.layers.Dense(1, dtype="float32"),
        ]
    )
    fill(12, model)
    optimizer = mp.LossScaleOptimizer(
        keras.optimizers.SGD(0.1, momentum=0.9), DynamicLossScale(2.0**8, 2)
    )
    weights = model.trainable_variables
    sums = [tf.Variable(tf.zeros(weight.shape)) for weight in weights]

    @tf.function
    def accumulate(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2) / EACH
            scaled_loss = optimizer.get_scaled_loss(loss)
        gradients = tape.gradient(scaled_loss, weights)
        if lazy:
            gradients = (gradient for gradient in gradients)
        gradients = optimizer.get_unscaled_gradients(gradients)
        for total, gradient in zip(sums, gradients):
            total.assign_add(gradient)
        return loss

    @tf.function
    def update():
        optimizer.apply_gradients(zip([total.value() for total in sums], weights))
        for total in sums:
            total.assign(tf.zeros_like(total))

    rng = np.random.RandomState(0)
    x = rng.randn(UPDATES, EACH, 6, 4).astype("float32")
    y = x.sum(-1, keepdims=True)
    y[2, 1] = np.inf
    log = Log(model)
    for xs, ys in zip(x, y):
        losses = [accumulate(*map(tf.constant, batch)) for batch in zip(xs, ys)]
        update()
        log.add(losses, optimizer)
    return log.result()
