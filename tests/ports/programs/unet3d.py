"""A 3D U-Net on "infer" policies: every layer is float16 because its input is.

The weights are float16 too. The output is float32, and the loss scale is fixed.
"""

import numpy as np

from programs.world import Log, fill, keras, mp

STEPS = 4


def run():
    mp.set_policy("infer")
    inputs = keras.Input((4, 4, 4, 1), dtype="float16")
    down = keras.layers.Conv3D(3, 3, padding="same", activation="relu")(inputs)
    x = keras.layers.Conv3D(4, 2, strides=2, activation="relu")(down)
    x = keras.layers.Conv3D(4, 3, padding="same", activation="relu")(x)
    x = keras.layers.UpSampling3D()(x)
    x = keras.layers.Concatenate()([x, down])
    x = keras.layers.Conv3D(1, 1)(x)
    outputs = keras.layers.Activation("linear", dtype="float32")(x)
    model = keras.Model(inputs, outputs)
    assert "float16" in str(model.trainable_variables[0].dtype)
    fill(9, model)
    optimizer = mp.LossScaleOptimizer(keras.optimizers.SGD(0.05), 64)
    model.compile(optimizer, "mse")
    rng = np.random.RandomState(0)
    volumes = rng.randn(4, 4, 4, 4, 1).astype("float16")
    masks = (volumes > 0.5).astype("float32")
    log = Log(model)
    for _ in range(STEPS):
        model.reset_metrics()
        log.add(model.train_on_batch(volumes, masks), model.optimizer)
    return log.result()
