"""DreamerV2: an actor and a critic with a slow target, clipped by the global norm.

The optimizer class decides by the global policy whether the loss is scaled, decays
the weights itself, and reports the loss scale with its other numbers.
"""

import numpy as np

from programs.world import DynamicLossScale, Log, fill, keras, mp, tf

STEPS = 6


class Network:
    """Two hidden layers, and a float32 output."""

    def __init__(self, inputs, outputs):
        self.hidden = [keras.layers.Dense(8, activation="elu") for _ in range(2)]
        self.out = keras.layers.Dense(outputs, dtype="float32")
        self(tf.zeros((1, inputs)))

    def __call__(self, x):
        for layer in self.hidden:
            x = layer(x)
        return self.out(x)

    @property
    def trainable_variables(self):
        layers = [*self.hidden, self.out]
        return [v for layer in layers for v in layer.trainable_variables]


class Optimizer(tf.Module):
    """Minimizes a loss, with a loss scale where the policy is mixed."""

    def __init__(self, rate, clip, decay):
        super().__init__()
        self.clip = clip
        self.decay = decay
        self.inner = keras.optimizers.Adam(rate, epsilon=1e-5)
        self.mixed = mp.global_policy().compute_dtype == "float16"
        if self.mixed:
            scale = DynamicLossScale(2.0**10, increment_period=2)
            self.inner = mp.LossScaleOptimizer(self.inner, scale)

    def minimize(self, tape, loss, weights):
        if self.mixed:
            with tape:
                loss = self.inner.get_scaled_loss(loss)
        gradients = tape.gradient(loss, weights)
        if self.mixed:
            gradients = self.inner.get_unscaled_gradients(gradients)
        norm = tf.linalg.global_norm(gradients)
        gradients, _ = tf.clip_by_global_norm(gradients, self.clip, norm)
        for weight in weights:
            weight.assign(weight * (1.0 - self.decay))
        self.inner.apply_gradients(zip(gradients, weights))


def run():
    mp.set_policy("mixed_float16")
    actor, critic, target = Network(6, 3), Network(6, 1), Network(6, 1)
    fill(2, actor, critic)
    for slow, fast in zip(target.trainable_variables, critic.trainable_variables):
        slow.assign(fast)
    of_actor, of_critic = Optimizer(0.005, 0.3, 1e-3), Optimizer(0.01, 1.0, 1e-3)

    @tf.function
    def step(state, action, reward, following):
        with tf.GradientTape() as actor_tape, tf.GradientTape() as critic_tape:
            returns = reward + 0.9 * target(following)[:, 0]
            value = critic(state)[:, 0]
            logits = actor(state)
            chosen = tf.one_hot(action, 3)
            score = tf.reduce_sum(tf.nn.log_softmax(logits) * chosen, -1)
            advantage = tf.stop_gradient(returns - value)
            actor_loss = -tf.reduce_mean(score * advantage)
            critic_loss = tf.reduce_mean((value - tf.stop_gradient(returns)) ** 2)
        of_actor.minimize(actor_tape, actor_loss, actor.trainable_variables)
        of_critic.minimize(critic_tape, critic_loss, critic.trainable_variables)
        return actor_loss, critic_loss

    rng = np.random.RandomState(0)
    batch = [
        tf.constant(rng.randn(16, 6), tf.float32),
        tf.constant(rng.randint(0, 3, 16)),
        tf.constant(rng.randn(16), tf.float32),
        tf.constant(rng.randn(16, 6), tf.float32),
    ]
    log = Log(actor, critic, target)
    for index in range(STEPS):
        log.add(step(*batch), of_actor.inner, of_critic.inner)
        if index % 2:
            for slow, fast in zip(
                target.trainable_variables, critic.trainable_variables
            ):
                slow.assign(0.5 * slow + 0.5 * fast)
    return log.result()
