"""`LossScaleLogger`: the loss scale and the skipped steps of each epoch."""

import threading

import keras
import numpy as np

from keras_policies import keras_internals
from keras_policies._common.types import Config
from keras_policies._common.warnings import warn
from keras_policies.loss_scaling.optimizer import LossScaleOptimizer, rule_of
from keras_policies.loss_scaling.status import scaling_of, words_on_weights

# Keys of `History.params`: the scale before the first step; lists with an item a step.
STARTED_AT, BY_STEP = "initial_loss_scale", "loss_scale_by_step"
_COUNTING = threading.Lock()  # Keras reports batches in threads, and so in any order


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

    The optimizer may be that of stock Keras, which does not count what it skips: every
    batch of `fit` that made no update then counts as skipped. Without a loss scale, the
    callback says so once and adds nothing, so that one script can switch precision.

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
        # Batches of earlier epochs of a `fit`, and of all epochs.
        self._ended = self._batches = 0
        self._warned = False
        self._warned_of_nothing = False
        self._keeps_steps = every_step
        self.async_safe = (
            not every_step
        )  # counting batches need not wait for the device

    def on_train_begin(self, logs: Config | None = None) -> None:
        if not self._has_scale():
            if not self._warned_of_nothing:
                self._warned_of_nothing = True
                warn(_nothing_to_log(self.model.optimizer))
            return
        self._ended = self._batches = 0
        self._made_before = self._applied()
        self._before = self._steps()
        self._skipped = self._before[0]  # until the step before
        self._by_step: Config = {"loss_scale": [], "skipped_steps": [], "loss": []}
        noted = {STARTED_AT: scaling_of(self.model).value, BY_STEP: self._by_step}
        (self.params or {}).update(noted)  # of fit; its History has the same dict

    def on_train_batch_end(self, batch: int, logs: Config | None = None) -> None:
        with _COUNTING:
            self._batches = max(self._batches, self._ended + batch + 1)
        if self._keeps_steps and self._has_scale():
            self._keep_step(logs)

    def _keep_step(self, logs: Config | None) -> None:
        before, self._skipped = self._skipped, self._steps()[0]
        new_skipped, loss = self._skipped - before, (logs or {}).get("loss")
        values_now = scaling_of(self.model).value, new_skipped, loss
        for values, value in zip(self._by_step.values(), values_now, strict=True):
            values.append(value)

    def on_epoch_end(self, epoch: int, logs: Config | None = None) -> None:
        if not self._has_scale():
            return
        self._ended = self._batches
        skipped, applied = self._steps()
        new_skipped = skipped - self._before[0]
        new_applied = applied - self._before[1]
        self._before = skipped, applied
        scale = scaling_of(self.model).value or 0.0
        if logs is not None:
            logs.update(loss_scale=scale, skipped_steps=new_skipped)
        if new_skipped and not new_applied:
            self._warn_if_at_minimum(epoch, scale)
        if not rule_of(self.model.optimizer).skips_nonfinite:
            self._warn_if_lost(epoch, (logs or {}).get("loss", 0.0))

    def _has_scale(self) -> bool:
        return isinstance(self.model.optimizer, keras.optimizers.LossScaleOptimizer)

    def _steps(self) -> tuple[int, int]:
        """Return the numbers of skipped and applied steps."""
        optimizer, applied = self.model.optimizer, self._applied()
        if isinstance(optimizer, LossScaleOptimizer):
            return int(optimizer.skipped_steps), applied
        # Stock Keras does not count them.
        return self._batches - (applied - self._made_before), applied

    def _applied(self) -> int:
        return int(keras_internals.step_count(self.model.optimizer.inner_optimizer))

    def _warn_if_at_minimum(self, epoch: int, scale: float) -> None:
        minimum = scaling_of(self.model).minimum
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
            f"{rule_of(self.model.optimizer)!r} never skips a step, so gradients that "
            f"overflow turn weights into NaN for good; now {weights}. Create or load "
            "the model again, with the loss scale 'dynamic' or a lower one."
        )


def _nothing_to_log(optimizer: keras.optimizers.Optimizer) -> str:
    class_name = f"{type(optimizer).__module__}.{type(optimizer).__name__}"
    return (
        f"LossScaleLogger has nothing to log: the model's optimizer is {class_name}, "
        "not a LossScaleOptimizer. For a loss scale, set the policy by its "
        "name, with keras_policies.set_policy('mixed_float16'), before the model is "
        "made, or compile it with keras_policies.LossScaleOptimizer(model.optimizer)."
    )
