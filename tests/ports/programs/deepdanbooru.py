"""DeepDanbooru: a tagger of images, trained by `train_on_batch` in a loop."""

import numpy as np

from programs.world import Log, fill, keras, mp

STEPS = 6


def tagger():
    inputs = keras.Input((12, 12, 3))
    x = keras.layers.Conv2D(6, 3, strides=2, activation="relu")(inputs)
    shortcut = x
    x = keras.layers.Conv2D(6, 3, padding="same", activation="relu")(x)
    x = keras.layers.Add()([x, shortcut])
    x = keras.layers.GlobalAveragePooling2D()(x)
    x = keras.layers.Dense(5)(x)
    outputs = keras.layers.Activation("sigmoid", dtype="float32")(x)
    return keras.Model(inputs, outputs)


def run():
    mp.set_policy(mp.Policy("mixed_float16"))
    rng = np.random.RandomState(0)
    batches = [
        (
            rng.uniform(0, 1, (8, 12, 12, 3)).astype("float32"),
            rng.randint(0, 2, (8, 5)).astype("float32"),
        )
        for _ in range(2)
    ]
    model = tagger()
    fill(4, model)
    model.compile(keras.optimizers.SGD(0.2, momentum=0.9), "binary_crossentropy")
    log = Log(model)
    for step in range(STEPS):
        model.reset_metrics()
        loss = model.train_on_batch(*batches[step % 2])
        log.add(loss, model.optimizer)
    return log.result()
