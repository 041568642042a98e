"""A text model: an embedding, an LSTM, and logits of the next character."""

import numpy as np

from programs.world import DynamicLossScale, Log, fill, keras, mp

STEPS = 5
CHARACTERS = 9


def run():
    scale = DynamicLossScale(2.0**12, increment_period=3)
    mp.set_policy(mp.Policy("mixed_float16", loss_scale=scale))
    model = keras.Sequential(
        [
            keras.Input((7,), dtype="int32"),
            keras.layers.Embedding(CHARACTERS, 4),
            keras.layers.LSTM(6, return_sequences=True),
            keras.layers.Dense(CHARACTERS, dtype="float32"),
        ]
    )
    fill(16, model)
    model.compile(
        keras.optimizers.SGD(1.0, momentum=0.5),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    rng = np.random.RandomState(0)
    text = rng.randint(0, CHARACTERS, (8, 8)).astype("int32")
    log = Log(model)
    model.fit(
        text[:, :-1],
        text[:, 1:],
        batch_size=8,
        epochs=STEPS,
        verbose=0,
        callbacks=[log],
    )
    return log.result()
