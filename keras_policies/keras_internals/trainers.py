"""Seams and accessors of `Model.compile`, and of what the first step of `fit` does.

Keras: src/trainers/trainer.py.
"""

import inspect
from collections.abc import Callable
from typing import Any

import keras
from keras.src.saving import serialization_lib
from keras.src.trainers.trainer import Trainer

from keras_policies.keras_internals.layers import no_automatic_dependency_tracking
from keras_policies.keras_internals.wrapping import Function, Inside, instead_of


def around_compile(
    hook: Callable[[keras.Model, Callable[[bool], None], bool], None],
) -> None:
    """Run `hook(model, compile_model, auto_scale_loss)` in place of `compile`.

    `compile_model(auto_scale_loss)` is stock `compile` with the user's other arguments.
    """

    @instead_of(Trainer, "compile")
    @no_automatic_dependency_tracking
    def compile(stock: Function, self: keras.Model, *args: Any, **kwargs: Any) -> None:
        given = inspect.signature(stock).bind(self, *args, **kwargs)
        asked_for = given.arguments.get("auto_scale_loss", True)

        def compile_model(auto_scale_loss: bool) -> None:
            given.arguments["auto_scale_loss"] = auto_scale_loss
            stock(*given.args, **given.kwargs)

        hook(self, compile_model, asked_for)


# In it, models are compiled because a file says so, not the user.
opening_a_file = Inside()


def is_compiled_by_a_file() -> bool:
    """Return whether the `compile` that is running was called because of a file."""
    return opening_a_file.depth > 0


def before_training(hook: Callable[[keras.Model], None]) -> None:
    """Call `hook(model)` when `fit` or `train_on_batch` of a model begins.

    The trainers of all backends call `_assert_compile_called` first.
    """

    @instead_of(Trainer, "_assert_compile_called")
    def check(stock: Function, self: keras.Model, method: str | None = None) -> None:
        stock(self, method)
        if method in ("fit", "train_on_batch"):
            hook(self)

    @instead_of(Trainer, "compile_from_config")
    def compile_from_config(stock: Function, self: keras.Model, config: Any) -> None:
        with opening_a_file:
            stock(self, config)


def record_no_auto_scale_loss(model: keras.Model) -> None:
    """Record in a compiled `model` that it was compiled with `auto_scale_loss=False`.

    Keras does not: a saved model would be compiled with the default.
    """
    config = {**model._compile_config.config, "auto_scale_loss": False}
    model._compile_config = serialization_lib.SerializableDict(**config)


def build_for_batch(model: keras.Model, x: Any, y: Any) -> None:
    """Build a compiled model, its losses and metrics, as the first step of `fit`."""
    model._symbolic_build(data_batch=(x, y))
