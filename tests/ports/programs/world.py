"""The names that differ between tf.keras of TensorFlow 2.0 to 2.4 and Keras 3.

A program takes `keras`, `mp` and `tf` from here and is otherwise one text for both
worlds. Where a line has to differ, it asks `OLD`. `tf` is None on jax and torch.
"""

import sys

import numpy as np

# The old releases need Python 3.8 or less, and our package 3.10 or more.
OLD = sys.version_info < (3, 9)

if OLD:
    import tensorflow as tf
    from tensorflow import keras
    from tensorflow.keras.mixed_precision import experimental as mp

    # That of 2.4, whose second argument is `dynamic`; 2.3 has only the one in `mp`.
    LossScaleOptimizer = getattr(keras.mixed_precision, "LossScaleOptimizer", None)
    DynamicLossScale = tf.train.experimental.DynamicLossScale
else:
    import keras
    import keras_policies as mp

    LossScaleOptimizer = mp.experimental.LossScaleOptimizer
    DynamicLossScale = mp.DynamicLossScale
    tf = None
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

NUMBERS = 4  # of each variable that are recorded


def set_stock_policy(name):
    """Set the global policy by the function that Keras itself has for it."""
    if OLD:
        keras.mixed_precision.set_global_policy(name)
    else:
        keras.config.set_dtype_policy(name)


def current_scale(optimizer):
    """Return the loss scale of an optimizer; up to 2.3 it was called for its value."""
    scale = optimizer.loss_scale
    return scale() if callable(scale) else scale


def fill(seed, *models):
    """Give the trainable variables of models the numbers that a seed draws."""
    rng = np.random.RandomState(seed)
    for model in models:
        for variable in model.trainable_variables:
            shape = tuple(variable.shape)
            bound = 1.0 if len(shape) == 1 else (3.0 / np.prod(shape[:-1])) ** 0.5
            values = rng.uniform(-bound, bound, shape)
            if len(shape) == 1:
                values = 0.1 * values + np.array(variable.numpy())
            variable.assign(values.astype("float32"))


def _numbers(variable):
    values = np.array(variable.numpy(), "float64").ravel()
    places = np.linspace(0, len(values) - 1, min(NUMBERS, len(values))).astype(int)
    return [float(values[place]) for place in places]


class Log(keras.callbacks.Callback):
    """What a program shows: the losses and loss scales of its steps, and weights.

    A loop calls `add` after each step. `fit` takes it as a callback, with one batch
    in each epoch, since on jax the optimizer holds its state between epochs only.
    """

    def __init__(self, *models):
        super().__init__()
        self.models = models
        self.losses = []
        self.scales = []
        self.start = self._weights()

    def _weights(self):
        models = self.models
        return [_numbers(v) for model in models for v in model.trainable_variables]

    def add(self, losses, *optimizers):
        """Note the loss, or a list of losses, and the loss scales after a step."""
        losses = losses if isinstance(losses, (list, tuple)) else [losses]
        losses = [float(loss) for loss in losses]
        self.losses.append([loss if np.isfinite(loss) else None for loss in losses])
        self.scales.append([float(current_scale(each)) for each in optimizers])

    def on_epoch_end(self, epoch, logs=None):
        losses = [logs[name] for name in sorted(logs) if name.endswith("loss")]
        self.add(losses, self.model.optimizer)

    def result(self):
        """Return everything that was noted, ready for JSON."""
        return {
            "losses": self.losses,
            "scales": self.scales,
            "start": self.start,
            "weights": self._weights(),
        }
