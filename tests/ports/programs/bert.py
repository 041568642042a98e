"""TensorFlow models' BERT: an Adam that decays the weights and clips the gradients.

The optimizer is a subclass that the loss scale wraps. tf.keras called the inner
`apply_gradients`, where the script clips; Keras 3 calls `apply`. The clipping moves
there in a port, or, with `as_it_was`, stays where it does nothing.
"""

import numpy as np

from programs.world import OLD, Log, fill, keras, mp, tf

STEPS = 6
DECAY = 0.01
CLIP = 0.05


class AdamWeightDecay(keras.optimizers.Adam):
    """Adam with decoupled weight decay of matrices, under the names of each world."""

    if OLD:

        def apply_gradients(self, grads_and_vars, name=None, **kwargs):
            gradients, weights = zip(*grads_and_vars)
            gradients, _ = tf.clip_by_global_norm(gradients, CLIP)
            return super().apply_gradients(zip(gradients, weights), name, **kwargs)

        def _resource_apply_dense(self, grad, var, apply_state=None):
            if len(var.shape) > 1:
                rate = self._decayed_lr(var.dtype.base_dtype)
                with tf.control_dependencies([var.assign_sub(rate * DECAY * var)]):
                    return super()._resource_apply_dense(grad, var, apply_state)
            return super()._resource_apply_dense(grad, var, apply_state)

    else:

        def apply(self, grads, trainable_variables=None):
            grads, _ = tf.clip_by_global_norm(grads, CLIP)
            super().apply(grads, trainable_variables)

        def update_step(self, gradient, variable, learning_rate):
            if len(variable.shape) > 1:
                variable.assign_sub(learning_rate * DECAY * variable)
            super().update_step(gradient, variable, learning_rate)


class ClippedWhereItWas(AdamWeightDecay):
    """The same with the clipping in `apply_gradients` in both worlds."""

    if not OLD:

        def apply(self, grads, trainable_variables=None):
            keras.optimizers.Adam.apply(self, grads, trainable_variables)

        def apply_gradients(self, grads_and_vars):
            gradients, weights = zip(*grads_and_vars)
            gradients, _ = tf.clip_by_global_norm(gradients, CLIP)
            return super().apply_gradients(zip(gradients, weights))


def encoder():
    words = keras.Input((6, 10))  # one-hot, as on accelerators
    x = keras.layers.Dense(8, use_bias=False)(words)
    x = keras.layers.LayerNormalization(epsilon=1e-5, dtype="float32")(x)
    inner = keras.layers.Dense(16, activation="relu")(x)
    inner = keras.layers.Dense(8)(inner)
    x = keras.layers.Add()([keras.layers.Activation("linear")(x), inner])
    x = keras.layers.LayerNormalization(epsilon=1e-5, dtype="float32")(x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    x = keras.layers.Dense(8, activation="tanh")(x)
    return keras.Model(words, keras.layers.Dense(2, dtype="float32")(x))


def run(as_it_was=False):
    mp.set_policy("mixed_float16")
    model = encoder()
    fill(8, model)
    adam = ClippedWhereItWas if as_it_was else AdamWeightDecay
    # With this epsilon the length of a gradient counts, and so its clipping does.
    optimizer = mp.LossScaleOptimizer(adam(0.02, epsilon=0.01), "dynamic")

    @tf.function
    def step(words, labels):
        with tf.GradientTape() as tape:
            logits = model(words, training=True)
            entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(entropy)
            if isinstance(optimizer, mp.LossScaleOptimizer):
                scaled_loss = optimizer.get_scaled_loss(loss)
        weights = model.trainable_variables
        gradients = tape.gradient(scaled_loss, weights)
        gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(zip(gradients, weights))
        return loss

    rng = np.random.RandomState(0)
    words = tf.one_hot(rng.randint(0, 10, (12, 6)), 10)
    labels = tf.constant(rng.randint(0, 2, 12))
    log = Log(model)
    for _ in range(STEPS):
        log.add(step(words, labels), optimizer)
    return log.result()
