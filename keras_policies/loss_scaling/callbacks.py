"""`LossScaleLogger`: the loss scale and the skipped steps of each epoch."""

import threading

import keras
import numpy as np

from keras_policies import keras_internals
from keras_policies._common.types import Config
from keras_policies._common.warnings import warn
from keras_policies.loss_scaling import halting
from keras_policies.loss_scaling.loop_state import read
from keras_policies.loss_scaling.optimizer import LossScaleOptimizer
from keras_policies.loss_scaling.status import (
    is_scaling,
    other_optimizers,
    rule_of,
    scaling_of,
    words_on_weights,
)

# Keys of `History.params`: the scale before the first step; lists with an item a step.
STARTED_AT, BY_STEP = "initial_loss_scale", "loss_scale_by_step"
_COUNTING = threading.Lock()  # Keras reports batches in threads, and so in any order


class LossScaleLogger(keras.callbacks.Callback):  # type: ignore[misc]
    """Adds `loss_scale` and `skipped_steps` to the logs of each epoch.

    `loss_scale` is the scale (unitless) after the epoch, `skipped_steps` the number
    of steps of the epoch that were skipped because a gradient was not finite. Both
    are read from the device once an epoch. `History` and the progress bar always see
    them; put this callback before `CSVLogger` and `TensorBoard`, which only see
    what earlier callbacks added. `History.params` also has the scale before the first
    step. `plot_loss_scale` draws the history.

    If `model.optimizer` made no step in an epoch, as in a GAN whose `train_step` uses
    other optimizers, its loss scale multiplied nothing: `loss_scale` is NaN, and the
    callback warns once. It also warns once when training has halted: every step of an
    epoch was skipped with the scale at its minimum, or the loss of an epoch is not
    finite under a loss scale that never skips a step, such as a fixed one.

    With the optimizer of plain Keras, which does not count skipped steps, every batch
    of `fit` without an update counts as skipped. Without a loss scale, the callback
    warns once and adds nothing, so that one script can switch precision.

    Args:
        every_step: bool, whether to also keep the scale after each step, for
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
        self._said: set[str] = set()
        self._keeps_steps = every_step
        # Counting batches need not wait for the device.
        self.async_safe = not every_step

    def on_train_begin(self, logs: Config | None = None) -> None:
        self._ended = self._batches = 0  # batches of earlier epochs, and of all
        if not self._has_scale():
            optimizer = type(self.model.optimizer)
            self._warn_once(
                "nothing",
                "LossScaleLogger has nothing to log: the model's optimizer is "
                f"{optimizer.__module__}.{optimizer.__name__}, not a "
                "LossScaleOptimizer. For a loss scale, set the policy by its name, "
                "with keras_policies.set_policy('mixed_float16'), before you create "
                "the model, or compile it with "
                "keras_policies.LossScaleOptimizer(model.optimizer).",
            )
            return
        self._steps_before = self._steps()
        self._skipped = self._steps_before[0]  # until the step before
        self._by_step: Config = {"loss_scale": [], "skipped_steps": [], "loss": []}
        self._scale = scaling_of(self.model).value or 0.0
        added = {STARTED_AT: self._scale, BY_STEP: self._by_step}
        (self.params or {}).update(added)  # of fit; its History has the same dict

    def on_train_batch_end(self, batch: int, logs: Config | None = None) -> None:
        with _COUNTING:
            self._batches = max(self._batches, self._ended + batch + 1)
        if self._keeps_steps and self._has_scale():
            before, self._skipped = self._skipped, self._steps()[0]
            loss = (logs or {}).get("loss")
            now = scaling_of(self.model).value, self._skipped - before, loss
            for values, value in zip(self._by_step.values(), now, strict=True):
                values.append(value)

    def on_epoch_end(self, epoch: int, logs: Config | None = None) -> None:
        if not self._has_scale():
            return
        batches, self._ended = self._batches - self._ended, self._batches
        before, self._steps_before = self._steps_before, self._steps()
        skipped, applied = np.subtract(self._steps_before, before).tolist()
        scaling = scaling_of(self.model)
        scale = scaling.value or 0.0
        is_same, self._scale = self._scale == scale, scale
        is_stock = not isinstance(self.model.optimizer, LossScaleOptimizer)
        # Plain Keras does not count skipped steps, but each of them lowers the scale.
        if batches and not applied and (is_same if is_stock else not skipped):
            self._warn_once("unused", self._about_other_optimizers())
            scale = float("nan")
        if logs is not None:
            logs.update(loss_scale=scale, skipped_steps=skipped)
        is_lowest = scaling.minimum is not None and scale <= scaling.minimum
        if skipped and not applied and is_lowest:
            self._warn_once(
                "halted",
                f"Every step of epoch {epoch + 1} was skipped, with the loss scale at "
                f"its minimum of {scaling.minimum}. {self._cause()}",
            )
            halting.leave_to_logger(self.model.optimizer)
        rule, loss = rule_of(self.model.optimizer), (logs or {}).get("loss", 0.0)
        if not rule.skips_nonfinite and not np.isfinite(float(loss)):
            weights = words_on_weights(self.model) or "all of them are still finite"
            self._warn_once(
                "halted",
                f"The loss of epoch {epoch + 1} is {float(loss)}. {rule!r} never skips "
                "a step, so gradients that overflow turn weights into NaN for good; "
                f"now {weights}. Create or load the model again, with the loss scale "
                "'dynamic' or a lower one.",
            )

    def _has_scale(self) -> bool:
        return isinstance(self.model.optimizer, keras.optimizers.LossScaleOptimizer)

    def _steps(self) -> tuple[int, int]:
        """Return counts whose differences are the numbers of skipped and applied steps.

        Plain Keras does not count the former.
        """
        optimizer = self.model.optimizer
        applied = int(read(keras_internals.step_count(optimizer.inner_optimizer)))
        if isinstance(optimizer, LossScaleOptimizer):
            return int(optimizer.skipped_steps), applied
        return self._batches - applied, applied

    def _warn_once(self, reason: str, message: str) -> None:
        if reason not in self._said:
            self._said.add(reason)
            warn(message)

    def _about_other_optimizers(self) -> str:
        others = other_optimizers(self.model)
        unscaled = [name for name, each in others.items() if not is_scaling(each)]
        named = ", ".join(f"self.{name}" for name in unscaled or others)
        return (
            "LossScaleLogger logs no loss scale: model.optimizer made no step in an "
            "epoch, so its loss scale multiplied nothing. "
            + (f"The model also has {named}. " if others else "")
            + "A train_step that uses optimizers of its own has to wrap each of them, "
            "as in keras_policies.LossScaleOptimizer(d_optimizer), and scale the loss "
            "of each."
        )

    def _cause(self) -> str:
        if weights := words_on_weights(self.model):
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
