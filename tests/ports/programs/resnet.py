"""TensorFlow models' ResNet: `compile` and `fit` under a policy with a fixed scale.

Batch normalization is float16, and the logits are cast before the softmax.
"""

import numpy as np

from programs.world import Log, fill, keras, mp

STEPS = 5


def block(x, filters):
    shortcut = keras.layers.Conv2D(filters, 1, strides=2, use_bias=False)(x)
    x = keras.layers.Conv2D(filters, 3, strides=2, padding="same", use_bias=False)(x)
    x = keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-3)(x)
    x = keras.layers.Activation("relu")(x)
    x = keras.layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    x = keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-3)(x)
    return keras.layers.Activation("relu")(keras.layers.Add()([x, shortcut]))


def run():
    mp.set_policy(mp.Policy("mixed_float16", loss_scale=128))
    inputs = keras.Input((8, 8, 3))
    x = block(inputs, 6)
    x = keras.layers.GlobalAveragePooling2D()(x)
    x = keras.layers.Dense(3)(x)
    outputs = keras.layers.Activation("softmax", dtype="float32")(x)
    model = keras.Model(inputs, outputs)
    fill(7, model)
    rng = np.random.RandomState(0)
    images = rng.randn(12, 8, 8, 3).astype("float32")
    labels = rng.randint(0, 3, 12)
    model.compile(
        keras.optimizers.SGD(0.05, momentum=0.9), "sparse_categorical_crossentropy"
    )
    log = Log(model)
    model.fit(images, labels, batch_size=12, epochs=STEPS, verbose=0, callbacks=[log])
    return log.result()
