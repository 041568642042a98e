"""What Keras's trainers do with the losses of layers, and write of `compile`."""

from collections.abc import Callable
from typing import Any

import keras

from keras_policies.keras_internals.patches import replaces
from keras_policies.keras_internals.private_api import LOSS_SCALING
from keras_policies.keras_internals.wrapping import Function


def record_no_auto_scale_loss(model: keras.Model) -> None:
    """Record in a compiled `model` that it was compiled with `auto_scale_loss=False`.

    Keras does not: a saved model would be compiled with the default.
    """
    model._compile_config.config["auto_scale_loss"] = False


def after_additional_loss(hook: Callable[[keras.Model, Any], Any]) -> None:
    """Add `hook(model, loss)` to a model's loss, in place of a layer's scalar loss.

    Keras: src/trainers/trainer.py, `Trainer.compute_loss`.
    """

    @replaces("keras.Model._aggregate_additional_loss", needs=LOSS_SCALING)
    def aggregate(stock: Function, self: keras.Model, loss: Any) -> Any:
        return hook(self, stock(self, loss))
