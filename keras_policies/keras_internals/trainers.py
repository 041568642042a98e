"""Patches of `Model.compile` and of the losses of layers."""

import contextlib
import inspect
from collections.abc import Callable
from typing import Any, Protocol

import keras

from keras_policies.keras_internals.patches import replaces
from keras_policies.keras_internals.private_api import LOSS_SCALING, installs
from keras_policies.keras_internals.wrapping import Function


class CompileModel(Protocol):
    """Stock `compile`, with the other arguments that the user passed."""

    def __call__(self, *, auto_scale_loss: bool) -> None:
        """Compile the model."""


def around_compile(hook: Callable[[keras.Model, CompileModel, bool], None]) -> None:
    """Run `hook(model, compile_model, auto_scale_loss)` in place of `compile`."""

    @replaces("keras.Model.compile")
    def compile(stock: Function, self: keras.Model, *args: Any, **kwargs: Any) -> None:
        bound = None
        with contextlib.suppress(TypeError):
            bound = inspect.signature(stock).bind(self, *args, **kwargs)
        if bound is None:
            return stock(self, *args, **kwargs)  # type: ignore[no-any-return] # raises
        asked_for = bound.arguments.get("auto_scale_loss", True)

        def compile_model(*, auto_scale_loss: bool) -> None:
            bound.arguments["auto_scale_loss"] = auto_scale_loss
            stock(*bound.args, **bound.kwargs)

        hook(self, compile_model, asked_for)


def record_no_auto_scale_loss(model: keras.Model) -> None:
    """Record in a compiled `model` that it was compiled with `auto_scale_loss=False`.

    Keras does not: a saved model would be compiled with the default.
    """
    model._compile_config.config["auto_scale_loss"] = False


@installs(LOSS_SCALING)
def after_additional_loss(hook: Callable[[keras.Model, Any], Any]) -> None:
    """Add `hook(model, loss)` to a model's loss, in place of a layer's scalar loss.

    Keras: src/trainers/trainer.py, `Trainer.compute_loss`.
    """

    @replaces("keras.Model._aggregate_additional_loss")
    def aggregate(stock: Function, self: keras.Model, loss: Any) -> Any:
        return hook(self, stock(self, loss))
