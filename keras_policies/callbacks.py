"""`LossScaleLogger`: what the loss scale does, epoch by epoch."""

import warnings

import keras

from keras_policies.annotations import Config
from keras_policies.loss_scale_optimizer import LossScaleOptimizer


class LossScaleLogger(keras.callbacks.Callback):
    """Puts `loss_scale` and `skipped_steps` into the logs of each epoch.

    `loss_scale` is the scale (unitless) after the epoch, `skipped_steps` the
    steps of the epoch that were skipped for a non-finite gradient. The device is
    asked once an epoch. `History` and the progress bar always see both; put this
    callback before `CSVLogger` and `TensorBoard`, for they write what they find.

    It warns, once, when every step of an epoch was skipped with the scale at its
    minimum: training has come to a halt.

    Raises:
        ValueError: when training begins, if the model's optimizer is not a
            `keras_policies.LossScaleOptimizer`.

    Example:
    ```python
    keras_policies.set_policy("mixed_float16")
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    history = model.fit(x, y, callbacks=[keras_policies.LossScaleLogger()])
    history.history["loss_scale"]
    ```
    """

    def __init__(self) -> None:
        super().__init__()
        self._before = (0, 0)
        self._warned = False

    def on_train_begin(self, logs: Config | None = None) -> None:
        optimizer = self.model.optimizer
        if not isinstance(optimizer, LossScaleOptimizer):
            raise ValueError(
                "LossScaleLogger has nothing to log: the model's optimizer is "
                f"{type(optimizer).__module__}.{type(optimizer).__name__}, not a "
                "keras_policies.LossScaleOptimizer. Create the model under "
                "keras_policies.set_policy('mixed_float16'), or compile it with a "
                "keras_policies.LossScaleOptimizer."
            )
        self._before = self._steps()

    def on_epoch_end(self, epoch: int, logs: Config | None = None) -> None:
        skipped, applied = self._steps()
        new_skipped = skipped - self._before[0]
        new_applied = applied - self._before[1]
        self._before = skipped, applied
        scale = float(self.model.optimizer.loss_scale)
        if logs is not None:
            logs.update(loss_scale=scale, skipped_steps=new_skipped)
        if new_skipped and not new_applied:
            self._warn_if_at_minimum(epoch, scale)

    def _steps(self):
        optimizer = self.model.optimizer
        return int(optimizer.skipped_steps), int(optimizer.applied_steps)

    def _warn_if_at_minimum(self, epoch, scale):
        minimum = getattr(self.model.optimizer.rule, "minimum", None)
        if self._warned or minimum is None or scale > minimum:
            return
        self._warned = True
        warnings.warn(
            f"Every step of epoch {epoch + 1} was skipped, with the loss scale at "
            f"its minimum of {minimum}. The gradients are not finite whatever the "
            "scale: look for a NaN in the data or a diverging model, or allow "
            "smaller scales with DynamicLossScale(minimum=...).",
            stacklevel=2,
        )
