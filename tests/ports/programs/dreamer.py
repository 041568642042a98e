"""Dreamer: a world model, an actor and a value function that learn in one step.

Each has an optimizer of its own in a small class that scales the loss, divides the
gradients, and clips them by their norm before it applies them.
"""

import numpy as np

from programs.world import Log, fill, keras, mp, tf

STEPS = 6


def dense(inputs, outputs):
    return keras.Sequential(
        [
            keras.Input((inputs,)),
            keras.layers.Dense(8, activation="elu"),
            keras.layers.Dense(outputs, dtype="float32"),
        ]
    )


class Adam(tf.Module):
    """An Adam with a loss scale for the variables of some models."""

    def __init__(self, rate, clip, *models):
        super().__init__()
        self.models = models
        self.clip = clip
        self.scaling = mp.LossScaleOptimizer(keras.optimizers.Adam(rate), "dynamic")

    def __call__(self, tape, loss):
        weights = [v for model in self.models for v in model.trainable_variables]
        with tape:
            scaled_loss = self.scaling.get_scaled_loss(loss)
        gradients = tape.gradient(scaled_loss, weights)
        gradients = self.scaling.get_unscaled_gradients(gradients)
        norm = tf.linalg.global_norm(gradients)
        gradients, _ = tf.clip_by_global_norm(gradients, self.clip, norm)
        self.scaling.apply_gradients(zip(gradients, weights))
        return norm


class Agent:
    """Imagines two steps ahead in the latent space of its world model."""

    def __init__(self):
        self.encoder, self.dynamics = dense(5, 4), dense(6, 4)
        self.reward, self.actor, self.value = dense(4, 1), dense(4, 2), dense(4, 1)
        self.of_model = Adam(0.01, 100.0, self.encoder, self.dynamics, self.reward)
        self.of_actor = Adam(0.003, 0.5, self.actor)
        self.of_value = Adam(0.003, 0.5, self.value)

    def models(self):
        return self.encoder, self.dynamics, self.reward, self.actor, self.value

    def imagine(self, latent):
        rewards = 0.0
        for discount in (1.0, 0.9):
            action = tf.tanh(self.actor(latent))
            latent = self.dynamics(tf.concat([latent, action], -1))
            rewards += discount * self.reward(latent)
        return latent, rewards

    @tf.function
    def train(self, seen, action, following, reward):
        with tf.GradientTape() as model_tape:
            latent = self.encoder(seen)
            target = tf.stop_gradient(self.encoder(following))
            predicted = self.dynamics(tf.concat([latent, action], -1))
            model_loss = tf.reduce_mean((predicted - target) ** 2)
            model_loss += tf.reduce_mean((self.reward(predicted) - reward) ** 2)
        with tf.GradientTape() as actor_tape:
            latent, rewards = self.imagine(tf.stop_gradient(latent))
            returns = rewards + 0.81 * self.value(latent)
            actor_loss = -tf.reduce_mean(returns)
        with tf.GradientTape() as value_tape:
            value = self.value(tf.stop_gradient(latent))
            value_loss = tf.reduce_mean((value - tf.stop_gradient(returns)) ** 2)
        self.of_model(model_tape, model_loss)
        self.of_actor(actor_tape, actor_loss)
        self.of_value(value_tape, value_loss)
        return model_loss, actor_loss, value_loss


def run():
    mp.set_policy(mp.Policy("mixed_float16"))
    agent = Agent()
    fill(1, *agent.models())
    rng = np.random.RandomState(0)
    data = [rng.randn(16, size).astype("float32") for size in (5, 2, 5, 1)]
    log = Log(*agent.models())
    for _ in range(STEPS):
        losses = agent.train(*map(tf.constant, data))
        optimizers = agent.of_model, agent.of_actor, agent.of_value
        log.add(losses, *(optimizer.scaling for optimizer in optimizers))
    return log.result()
