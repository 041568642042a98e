"""NVIDIA's U-Net: a loop that scales if the optimizer has `get_scaled_loss`.

`warmup` is an eager loop that raises the momentum through the wrapped optimizer.
"""

import numpy as np

from programs.world import Log, fill, keras, mp, tf

STEPS = 5


def unet():
    inputs = keras.Input((8, 8, 1))
    down = keras.layers.Conv2D(4, 3, padding="same", activation="relu")(inputs)
    x = keras.layers.MaxPooling2D()(down)
    x = keras.layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    x = keras.layers.Conv2DTranspose(4, 2, strides=2)(x)
    x = keras.layers.Concatenate()([x, down])
    x = keras.layers.Conv2D(4, 3, padding="same", activation="relu")(x)
    outputs = keras.layers.Conv2D(2, 1, dtype="float32")(x)
    return keras.Model(inputs, outputs)


def dice_loss(labels, logits):
    predicted = tf.nn.softmax(logits)
    both = tf.reduce_sum(predicted * labels, (1, 2))
    either = tf.reduce_sum(predicted**2, (1, 2)) + tf.reduce_sum(labels, (1, 2))
    return 1.0 - tf.reduce_mean(2.0 * both / (either + 1e-4))


def run(warmup=False):
    mp.set_policy("mixed_float16")
    model = unet()
    fill(5, model)
    optimizer = keras.optimizers.SGD(0.1, momentum=0.5)
    optimizer = mp.LossScaleOptimizer(optimizer, "dynamic")

    def step(images, labels):
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            entropy = tf.nn.softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(entropy) + dice_loss(labels, logits)
            objective = loss
            if hasattr(optimizer, "get_scaled_loss"):
                objective = optimizer.get_scaled_loss(loss)
        gradients = tape.gradient(objective, model.trainable_variables)
        if hasattr(optimizer, "get_unscaled_gradients"):
            gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    if not warmup:
        step = tf.function(step)
    rng = np.random.RandomState(0)
    images = tf.constant(rng.randn(4, 8, 8, 1), tf.float32)
    labels = tf.one_hot(tf.cast(images[..., 0] > 0.3, tf.int32), 2)
    log = Log(model)
    for index in range(STEPS):
        if warmup:
            optimizer.momentum = 0.5 + 0.1 * index
        log.add(step(images, labels), optimizer)
    return log.result()
