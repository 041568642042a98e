"""EfficientDet: a `train_step` that scales if the optimizer is a LossScaleOptimizer.

A small detector with a box head and a class head; the gradients are clipped.
`stock_policy` sets the global policy by Keras's own function.
"""

import numpy as np

from programs.world import Log, fill, keras, mp, set_stock_policy, tf

STEPS = 5


class Detector(keras.Model):
    """A shared convolution, and two heads."""

    def __init__(self):
        super().__init__()
        self.stem = keras.layers.Conv2D(4, 3, strides=2, activation="relu")
        self.boxes = keras.layers.Conv2D(4, 1, dtype="float32")
        self.classes = keras.layers.Conv2D(3, 1, dtype="float32")

    def call(self, images, training=None):
        features = self.stem(images)
        return self.boxes(features), self.classes(features)

    def train_step(self, data):
        images, (boxes, classes) = data
        with tf.GradientTape() as tape:
            found_boxes, found_classes = self(images, training=True)
            box_loss = tf.reduce_mean(tf.abs(found_boxes - boxes))
            class_loss = tf.reduce_mean(
                tf.nn.sigmoid_cross_entropy_with_logits(classes, found_classes)
            )
            decay = tf.add_n(
                [tf.reduce_sum(weight**2) for weight in self.trainable_variables]
            )
            loss = 5.0 * box_loss + class_loss + 1e-3 * decay
            scaled_loss = loss
            if isinstance(self.optimizer, mp.LossScaleOptimizer):
                scaled_loss = self.optimizer.get_scaled_loss(loss)
        weights = self.trainable_variables
        gradients = tape.gradient(scaled_loss, weights)
        if isinstance(self.optimizer, mp.LossScaleOptimizer):
            gradients = self.optimizer.get_unscaled_gradients(gradients)
        gradients, _ = tf.clip_by_global_norm(gradients, 2.0)
        self.optimizer.apply_gradients(zip(gradients, weights))
        return {"box_loss": box_loss, "class_loss": class_loss, "loss": loss}


def run(stock_policy=False):
    if stock_policy:
        set_stock_policy("mixed_float16")
    else:
        mp.set_policy("mixed_float16")
    rng = np.random.RandomState(0)
    images = rng.uniform(0, 1, (4, 9, 9, 3)).astype("float32")
    boxes = rng.uniform(-1, 1, (4, 4, 4, 4)).astype("float32")
    classes = rng.randint(0, 2, (4, 4, 4, 3)).astype("float32")
    model = Detector()
    model(images)
    fill(3, model)
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    if stock_policy:  # Keras 3 would wrap it in its own, which has no get_scaled_loss
        optimizer = mp.LossScaleOptimizer(optimizer, "dynamic")
    model.compile(optimizer)
    log = Log(model)
    model.fit(
        images,
        (boxes, classes),
        batch_size=4,
        epochs=STEPS,
        verbose=0,
        callbacks=[log],
    )
    return log.result()
