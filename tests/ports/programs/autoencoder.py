"""An autoencoder whose `train_step` never scales the loss of a wrapped optimizer.

tf.keras applies the plain gradients as they are: the loss scale is not used.
"""

import numpy as np

from programs.world import Log, fill, keras, mp, tf

STEPS = 5


class Autoencoder(keras.Model):
    """Two dense layers, with a plain tape in `train_step`."""

    def __init__(self):
        super().__init__()
        self.encoder = keras.layers.Dense(3, activation="tanh")
        self.decoder = keras.layers.Dense(6, dtype="float32")

    def call(self, x):
        return self.decoder(self.encoder(x))

    def train_step(self, x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(x, training=True) - x) ** 2)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"reconstruction_loss": loss}


def run():
    mp.set_policy(mp.Policy("mixed_float16"))
    x = np.random.RandomState(0).randn(16, 6).astype("float32")
    model = Autoencoder()
    model(x)
    fill(17, model)
    model.compile(keras.optimizers.SGD(0.5, momentum=0.5))
    log = Log(model)
    model.fit(x, batch_size=16, epochs=STEPS, verbose=0, callbacks=[log])
    return log.result()
