"""DCGAN: a traced loop with two tapes, transposed convolutions and LeakyReLU."""

import numpy as np

from programs.world import Log, fill, keras, mp, tf

STEPS = 4


def make_generator():
    return keras.Sequential(
        [
            keras.Input((5,)),
            keras.layers.Dense(2 * 2 * 6, use_bias=False),
            keras.layers.BatchNormalization(),
            keras.layers.LeakyReLU(0.3),
            keras.layers.Reshape((2, 2, 6)),
            keras.layers.Conv2DTranspose(4, 3, strides=2, padding="same"),
            keras.layers.LeakyReLU(0.3),
            keras.layers.Conv2DTranspose(1, 3, strides=2, padding="same"),
            keras.layers.Activation("tanh", dtype="float32"),
        ]
    )


def make_discriminator():
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(4, 3, strides=2, padding="same"),
            keras.layers.LeakyReLU(0.3),
            keras.layers.Flatten(),
            keras.layers.Dense(1),
            keras.layers.Activation("linear", dtype="float32"),
        ]
    )


def run():
    mp.set_policy(mp.Policy("mixed_float16"))
    generator, discriminator = make_generator(), make_discriminator()
    fill(11, generator, discriminator)
    entropy = keras.losses.BinaryCrossentropy(from_logits=True)
    of_generator = mp.LossScaleOptimizer(
        keras.optimizers.Adam(0.01, beta_1=0.5, epsilon=1e-3), "dynamic"
    )
    of_discriminator = mp.LossScaleOptimizer(
        keras.optimizers.Adam(0.01, beta_1=0.5, epsilon=1e-3), "dynamic"
    )

    @tf.function
    def step(noise, images):
        with tf.GradientTape() as generating, tf.GradientTape() as telling:
            made = generator(noise, training=True)
            of_real = discriminator(images, training=True)
            of_made = discriminator(made, training=True)
            generator_loss = entropy(tf.ones_like(of_made), of_made)
            discriminator_loss = entropy(tf.ones_like(of_real), of_real)
            discriminator_loss += entropy(tf.zeros_like(of_made), of_made)
            scaled_generator = of_generator.get_scaled_loss(generator_loss)
            scaled_discriminator = of_discriminator.get_scaled_loss(discriminator_loss)
        for optimizer, tape, loss, model in (
            (of_generator, generating, scaled_generator, generator),
            (of_discriminator, telling, scaled_discriminator, discriminator),
        ):
            gradients = tape.gradient(loss, model.trainable_variables)
            gradients = optimizer.get_unscaled_gradients(gradients)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return generator_loss, discriminator_loss

    rng = np.random.RandomState(0)
    noise = tf.constant(rng.randn(8, 5), tf.float32)
    images = tf.constant(rng.uniform(-1, 1, (8, 8, 8, 1)), tf.float32)
    log = Log(generator, discriminator)
    for _ in range(STEPS):
        log.add(step(noise, images), of_generator, of_discriminator)
    return log.result()
