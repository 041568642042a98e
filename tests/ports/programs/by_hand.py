"""A loop that multiplies the loss by `loss_scale` itself.

tf.keras wanted its gradients divided by hand too. Keras 3 divides in
`apply_gradients`, so README has them passed as they are.
"""

import numpy as np

from programs.world import OLD, Log, current_scale, fill, keras, mp, tf

STEPS = 6


def run():
    mp.set_policy("mixed_float16")
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(6, activation="relu"),
            keras.layers.Dense(1, dtype="float32"),
        ]
    )
    fill(14, model)
    optimizer = mp.LossScaleOptimizer(keras.optimizers.SGD(0.05), "dynamic")

    @tf.function
    def step(x, y):
        scale = current_scale(optimizer)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
            scaled_loss = loss * scale
        gradients = tape.gradient(scaled_loss, model.trainable_variables)
        if OLD:
            gradients = [gradient / scale for gradient in gradients]
        said = {} if OLD else {"are_scaled": True}
        optimizer.apply_gradients(zip(gradients, model.trainable_variables), **said)
        return loss

    rng = np.random.RandomState(0)
    x = tf.constant(rng.randn(16, 3), tf.float32)
    y = tf.reduce_sum(x, -1, keepdims=True)
    log = Log(model)
    for _ in range(STEPS):
        log.add(step(x, y), optimizer)
    return log.result()
