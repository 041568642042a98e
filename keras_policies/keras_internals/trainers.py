"""Seams and accessors of `Model.compile`, and of what the first step of `fit` does."""

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterator
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


class _Opening(threading.local):
    """How many files this thread is opening and compiling the models of."""

    depth = 0


_opening = _Opening()


@contextlib.contextmanager
def opening_a_file() -> Iterator[None]:
    """Mark that models are compiled because a file says so, not the user."""
    _opening.depth += 1
    try:
        yield
    finally:
        _opening.depth -= 1


def is_compiled_by_a_file() -> bool:
    """Return whether the `compile` that is running was called because of a file."""
    return _opening.depth > 0


def before_training(hook: Callable[[keras.Model], None]) -> None:
    """Call `hook(model)` when `fit` or `train_on_batch` of a model begins.

    Keras: src/trainers/trainer.py, `Trainer._assert_compile_called`, which the
    trainers of all backends call first. `Trainer.compile_from_config`.
    """

    def make_wrapper(stock: Function) -> Function:
        def _assert_compile_called(
            self: keras.Model, method_name: str | None = None
        ) -> None:
            stock(self, method_name)
            if method_name in ("fit", "train_on_batch"):
                hook(self)

        return _assert_compile_called

    def mark_files(stock: Function) -> Function:
        def compile_from_config(self: keras.Model, config: dict[str, Any]) -> None:
            with opening_a_file():
                stock(self, config)

        return compile_from_config

    wrap(Trainer, "_assert_compile_called", make_wrapper)
    wrap(Trainer, "compile_from_config", mark_files)


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
