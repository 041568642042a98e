"""Seams and accessors of `Model.compile`, and of what the first step of `fit` does."""

import inspect
from collections.abc import Callable
from typing import Any

import keras
from keras.src.saving import serialization_lib
from keras.src.trainers.trainer import Trainer

from keras_policies.keras_internals.layers import no_automatic_dependency_tracking
from keras_policies.keras_internals.wrapping import Function, wrap


def around_compile(
    hook: Callable[[keras.Model, Callable[[bool], None], bool], None],
) -> None:
    """Run `hook(model, compile_model, auto_scale_loss)` in place of `compile`.

    `compile_model(auto_scale_loss)` is stock `compile` with the user's other
    arguments. Keras: src/trainers/trainer.py, `Trainer.compile`.
    """

    def make_wrapper(stock: Function) -> Function:
        signature = inspect.signature(stock)

        @no_automatic_dependency_tracking
        def compile(self: keras.Model, *args: Any, **kwargs: Any) -> None:
            given = signature.bind(self, *args, **kwargs)
            asked_for = given.arguments.get("auto_scale_loss", True)

            def compile_model(auto_scale_loss: bool) -> None:
                given.arguments["auto_scale_loss"] = auto_scale_loss
                stock(*given.args, **given.kwargs)

            hook(self, compile_model, asked_for)

        return compile

    wrap(Trainer, "compile", make_wrapper)


def record_no_auto_scale_loss(model: keras.Model) -> None:
    """Record in a compiled `model` that it was compiled with `auto_scale_loss=False`.

    Keras: src/trainers/trainer.py does not record that argument itself, so a saved
    model would be compiled with the default.
    """
    config = {**model._compile_config.config, "auto_scale_loss": False}
    model._compile_config = serialization_lib.SerializableDict(**config)


def build_for_batch(model: keras.Model, x: Any, y: Any) -> None:
    """Build a compiled model, its losses and metrics, as the first step of `fit` does.

    Keras: src/trainers/trainer.py, `Trainer._symbolic_build`.
    """
    model._symbolic_build(data_batch=(x, y))
