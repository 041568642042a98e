"""Segmentation under a dynamic loss scale that grows, overflows and is halved.

The scale doubles after every second finite step. The fifth batch holds a number that
is infinite in float16: its step is skipped.
"""

import numpy as np

from programs.world import DynamicLossScale, Log, fill, keras, mp

STEPS = 8
OVERFLOWS = 4


def run():
    scale = DynamicLossScale(initial_loss_scale=64.0, increment_period=2)
    mp.set_policy(mp.Policy("mixed_float16", loss_scale=scale))
    inputs = keras.Input((8, 8, 2))
    x = keras.layers.Conv2D(4, 3, strides=2, padding="same", activation="relu")(inputs)
    x = keras.layers.Conv2D(4, 3, padding="same", activation="relu")(x)
    x = keras.layers.Conv2DTranspose(4, 2, strides=2)(x)
    x = keras.layers.Conv2D(3, 1)(x)
    outputs = keras.layers.Activation("linear", dtype="float32")(x)
    model = keras.Model(inputs, outputs)
    fill(13, model)
    model.compile(
        keras.optimizers.SGD(0.2, momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    rng = np.random.RandomState(0)
    images = rng.randn(4, 8, 8, 2).astype("float32")
    labels = rng.randint(0, 3, (4, 8, 8))
    broken = images.copy()
    broken[0, 3, 3, 0] = 1e5
    log = Log(model)
    for step in range(STEPS):
        model.reset_metrics()
        batch = broken if step == OVERFLOWS else images
        log.add(model.train_on_batch(batch, labels), model.optimizer)
    return log.result()
