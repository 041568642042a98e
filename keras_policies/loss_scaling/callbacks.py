"""`LossScaleLogger`: the loss scale and the skipped steps of each epoch."""

import keras
import numpy as np

from keras_policies._common.types import Config
from keras_policies._common.warnings import warn
from keras_policies.loss_scaling.optimizer import LossScaleOptimizer
from keras_policies.loss_scaling.status import scaling_of, words_on_weights

# Keys of `History.params`: the scale before the first step; lists with an item a step.
STARTED_AT, BY_STEP = "initial_loss_scale", "loss_scale_by_step"


class LossScaleLogger(keras.callbacks.Callback):  # type: ignore[misc]
    """Puts `loss_scale` and `skipped_steps` into the logs of each epoch.

    `loss_scale` is the scale (unitless) after the epoch, `skipped_steps` the number
    of steps of the epoch that were skipped because a gradient was not finite. Both
    are read from the device once an epoch. `History` and the progress bar always see
    them; put this callback before `CSVLogger` and `TensorBoard`, which see only what
    is in the logs by then.

    `plot_loss_scale` draws the history of such a training. `History.params` has the
    scale before the first step, too.

    It warns, once, when training has come to a halt: when every step of an epoch was
    skipped with the scale at its minimum; or, under a loss scale that never skips a
    step, such as a fixed one, when the loss of an epoch is not finite.

    If the model's optimizer is not a `keras_policies.LossScaleOptimizer`, it says so,
    once, and adds nothing: one script can switch precision.

    Args:
        every_step: bool, whether to keep the scale after each step as well, for
            `plot_loss_scale(history, by_step=True)`. Each step then waits for the
            device.

    Example:
    ```python
    keras_policies.set_policy("mixed_float16")
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    history = model.fit(x, y, callbacks=[keras_policies.LossScaleLogger()])
    history.history["loss_scale"]
    ```
    """

    def __init__(self, every_step: bool = False) -> None:
        super().__init__()
        self._before = (0, 0)
        self._warned = False
        self._warned_of_nothing = False
        if every_step:  # Keras asks whether there is a hook
            self.on_train_batch_end = self._keep_step

    def on_train_begin(self, logs: Config | None = None) -> None:
        if not self._has_scale():
            if not self._warned_of_nothing:
                self._warned_of_nothing = True
                warn(_nothing_to_log(self.model.optimizer))
            return
        self._before = self._steps()
        self._skipped = self._before[0]  # until the step before
        self._by_step: Config = {"loss_scale": [], "skipped_steps": [], "loss": []}
        noted = {STARTED_AT: scaling_of(self.model).value, BY_STEP: self._by_step}
        (self.params or {}).update(noted)  # of fit; its History has the same dict

    def _keep_step(self, batch: int, logs: Config | None = None) -> None:
        if not self._has_scale():
            return
        before, self._skipped = self._skipped, self._steps()[0]
        new_skipped, loss = self._skipped - before, (logs or {}).get("loss")
        values_now = scaling_of(self.model).value, new_skipped, loss
        for values, value in zip(self._by_step.values(), values_now, strict=True):
            values.append(value)

    def on_epoch_end(self, epoch: int, logs: Config | None = None) -> None:
        if not self._has_scale():
            return
        skipped, applied = self._steps()
        new_skipped = skipped - self._before[0]
        new_applied = applied - self._before[1]
        self._before = skipped, applied
        scale = scaling_of(self.model).value or 0.0
        if logs is not None:
            logs.update(loss_scale=scale, skipped_steps=new_skipped)
        if new_skipped and not new_applied:
            self._warn_if_at_minimum(epoch, scale)
        if not self.model.optimizer.rule.skips_nonfinite:
            self._warn_if_lost(epoch, (logs or {}).get("loss", 0.0))

    def _has_scale(self) -> bool:
        return isinstance(self.model.optimizer, LossScaleOptimizer)

    def _steps(self) -> tuple[int, int]:
        optimizer = self.model.optimizer
        return int(optimizer.skipped_steps), int(optimizer.applied_steps)

    def _warn_if_at_minimum(self, epoch: int, scale: float) -> None:
        minimum = self.model.optimizer.rule.minimum
        if self._warned or minimum is None or scale > minimum:
            return
        self._warned = True
        warn(
            f"Every step of epoch {epoch + 1} was skipped, with the loss scale at "
            f"its minimum of {minimum}. {self._cause()}"
        )

    def _cause(self) -> str:
        weights = words_on_weights(self.model)
        if weights:
            return (
                f"{weights}, so no loss scale makes the gradients finite: create or "
                "load the model again, and look for the cause in earlier steps."
            )
        return (
            "The weights are finite, but the gradients are not, whatever the scale: "
            "look for a NaN in the data, for a log, a division or an epsilon that is "
            "zero in float16, or for a diverging model; or allow smaller scales with "
            "DynamicLossScale(minimum=...)."
        )

    def _warn_if_lost(self, epoch: int, loss: float) -> None:
        if self._warned or np.isfinite(float(loss)):
            return
        self._warned = True
        weights = words_on_weights(self.model) or "all of them are still finite"
        warn(
            f"The loss of epoch {epoch + 1} is {float(loss)}. "
            f"{self.model.optimizer.rule!r} never skips a step, so gradients that "
            f"overflow turn weights into NaN for good; now {weights}. Create or load "
            "the model again, with the loss scale 'dynamic' or a lower one."
        )


def _nothing_to_log(optimizer: keras.optimizers.Optimizer) -> str:
    class_name = f"{type(optimizer).__module__}.{type(optimizer).__name__}"
    is_wrapper = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    inner = "model.optimizer" + (".inner_optimizer" if is_wrapper else "")
    return (
        f"LossScaleLogger has nothing to log: the model's optimizer is {class_name}, "
        "not a "
        "keras_policies.LossScaleOptimizer. For a loss scale, set the policy by its "
        "name, with keras_policies.set_policy('mixed_float16'), before the model is "
        f"made, or compile it with keras_policies.LossScaleOptimizer({inner})."
    )
