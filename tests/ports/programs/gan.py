"""A GAN in `fit`: two optimizers with loss scales, in a `train_step` of its own.

`compile` takes both optimizers and wraps them, as scripts do that override it; with
`positional`, by the LossScaleOptimizer of 2.4 and its arguments without names.
"""

import numpy as np

from programs.world import Log, LossScaleOptimizer, fill, keras, mp, tf

STEPS = 5


def dense(inputs, outputs):
    return keras.Sequential(
        [
            keras.Input((inputs,)),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.Dense(outputs, dtype="float32"),
        ]
    )


def entropy(label, logits):
    labels = tf.fill(tf.shape(logits), label)
    return tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    )


class GAN(keras.Model):
    """A generator of points and a critic of them."""

    def __init__(self, noise, positional):
        super().__init__()
        self.positional = positional
        self.noise = noise
        self.critic = dense(2, 1)
        self.generator = dense(3, 2)

    def compile(self, critic_optimizer, generator_optimizer):
        super().compile()
        self.of_critic = self.wrapped(critic_optimizer)
        self.of_generator = self.wrapped(generator_optimizer)

    def wrapped(self, optimizer):
        if self.positional:
            return LossScaleOptimizer(optimizer, True, 1024)
        return mp.LossScaleOptimizer(optimizer, "dynamic")

    def call(self, noise):
        return self.generator(noise)

    def minimize(self, optimizer, tape, scaled_loss, model):
        gradients = tape.gradient(scaled_loss, model.trainable_variables)
        gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    def train_step(self, real):
        fake = self.generator(self.noise)
        with tf.GradientTape() as tape:
            critic_loss = entropy(1.0, self.critic(real))
            critic_loss += entropy(0.0, self.critic(fake))
            scaled_loss = self.of_critic.get_scaled_loss(critic_loss)
        self.minimize(self.of_critic, tape, scaled_loss, self.critic)
        with tf.GradientTape() as tape:
            fooled = self.critic(self.generator(self.noise))
            generator_loss = entropy(1.0, fooled)
            scaled_loss = self.of_generator.get_scaled_loss(generator_loss)
        self.minimize(self.of_generator, tape, scaled_loss, self.generator)
        return {"critic_loss": critic_loss, "generator_loss": generator_loss}


class GANLog(Log):
    """Notes the loss scales of both optimizers."""

    def on_epoch_end(self, epoch, logs=None):
        losses = [logs["critic_loss"], logs["generator_loss"]]
        self.add(losses, self.model.of_critic, self.model.of_generator)


def run(positional=False):
    mp.set_policy("mixed_float16")
    rng = np.random.RandomState(0)
    noise = tf.constant(rng.randn(16, 3), tf.float32)
    real = rng.randn(16, 2).astype("float32") + 2.0
    model = GAN(noise, positional)
    fill(10, model.critic, model.generator)
    model.compile(keras.optimizers.SGD(0.1), keras.optimizers.SGD(0.2))
    log = GANLog(model.critic, model.generator)
    model.fit(real, batch_size=16, epochs=STEPS, verbose=0, callbacks=[log])
    return log.result()
