"""Warns at the end of `fit` if its last steps were skipped."""

from typing import Any

from keras_policies._common.warnings import warn
from keras_policies.loss_scaling.loop_state import read

BEFORE = "steps_before_fit"  # attribute of an optimizer: steps applied, and skipped
IS_SAID = "halting_is_said"  # attribute: a LossScaleLogger has warned


def warn_if_halted(optimizer: Any) -> None:
    """Warn if `fit`, which ends, skipped its last step at the lowest loss scale."""
    now = int(optimizer.applied_steps), int(optimizer.skipped_steps)
    before = vars(optimizer).get(BEFORE, (0, 0))
    vars(optimizer)[BEFORE] = now
    applied, skipped = now[0] - before[0], now[1] - before[1]
    scale, minimum = float(optimizer.loss_scale), optimizer.rule.minimum
    is_lowest = minimum is not None and scale <= minimum
    is_said = vars(optimizer).pop(IS_SAID, False)
    is_last_skipped = optimizer.built and not int(read(optimizer.step_counter))
    if skipped and is_lowest and is_last_skipped and not is_said:
        warn(
            f"fit ended with a skipped step, at the loss scale {scale:g}, its minimum. "
            f"It applied {applied} steps and skipped {skipped}, because a gradient was "
            "NaN or infinite. Lower the loss or its weights, or allow smaller scales "
            "with DynamicLossScale(minimum=...). If that does not help, look for a NaN "
            "in the data."
        )


def leave_to_logger(optimizer: Any) -> None:
    """Do not warn at the end of this `fit`: a `LossScaleLogger` has said it."""
    vars(optimizer)[IS_SAID] = True
