"""A transformer: LayerNormalization in float32, and a schedule that warms up."""

import numpy as np

from programs.world import OLD, Log, fill, keras, mp, tf

STEPS = 6
WIDTH = 8


class Warmup(keras.optimizers.schedules.LearningRateSchedule):
    """Rises for some steps, then falls with their inverse root."""

    def __init__(self, steps):
        super().__init__()
        self.steps = float(steps)

    def __call__(self, step):
        ops = tf.math if OLD else keras.ops
        step = ops.maximum((tf if OLD else ops).cast(step, "float32"), 1.0)
        return 0.1 * ops.minimum(ops.rsqrt(step), step * self.steps**-1.5)

    def get_config(self):
        return {"steps": self.steps}


def attention(x):
    query, key, value = (keras.layers.Dense(WIDTH)(x) for _ in range(3))
    scores = keras.layers.Dot(axes=2)([query, key])
    weights = keras.layers.Softmax(dtype="float32")(scores)
    return keras.layers.Dense(WIDTH)(keras.layers.Dot(axes=(2, 1))([weights, value]))


def normalized(x, branch):
    x = keras.layers.Add()([x, branch])
    return keras.layers.LayerNormalization(epsilon=1e-6, dtype="float32")(x)


def run():
    mp.set_policy("mixed_float16")
    inputs = keras.Input((5, 3))
    x = keras.layers.Dense(WIDTH)(inputs)
    x = normalized(x, attention(x))
    x = normalized(x, keras.layers.Dense(WIDTH, activation="relu")(x))
    x = keras.layers.GlobalAveragePooling1D()(x)
    model = keras.Model(inputs, keras.layers.Dense(1, dtype="float32")(x))
    fill(15, model)
    adam = keras.optimizers.Adam(Warmup(3), beta_1=0.9, beta_2=0.98, epsilon=1e-2)
    model.compile(adam, "mse")
    rng = np.random.RandomState(0)
    x = rng.randn(16, 5, 3).astype("float32")
    y = x[:, :, 0].max(1, keepdims=True)
    log = Log(model)
    model.fit(x, y, batch_size=16, epochs=STEPS, verbose=0, callbacks=[log])
    return log.result()
