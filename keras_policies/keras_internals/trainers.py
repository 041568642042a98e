"""Seams of `Model.compile`, and of what `fit` does first."""

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import keras

from keras_policies.keras_internals.wrapping import Function, owner_of, wrap

# An attribute of a model that was compiled with `auto_scale_loss=False`. TensorFlow
# does not track names with this prefix.
_NO_AUTO_SCALE_LOSS = "_self_keras_policies_no_auto_scale_loss"


def around_compile(
    hook: Callable[[keras.Model, Callable[[bool], None], bool], None],
) -> None:
    """Run `hook(model, compile_model, auto_scale_loss)` in place of `compile`.

    `compile_model(auto_scale_loss)` is stock `compile` with the user's other
    arguments.
    """

    def make_wrapper(stock: Function) -> Function:
        signature = inspect.signature(stock)

        def compile(self: keras.Model, *args: Any, **kwargs: Any) -> None:
            given = signature.bind(self, *args, **kwargs)
            asked_for = given.arguments.get("auto_scale_loss", True)
            vars(self).pop(_NO_AUTO_SCALE_LOSS, None)

            def compile_model(auto_scale_loss: bool) -> None:
                given.arguments["auto_scale_loss"] = auto_scale_loss
                stock(*given.args, **given.kwargs)

            hook(self, compile_model, asked_for)

        return compile

    _wrap(make_wrapper, "compile")
    _wrap(_add_auto_scale_loss, "get_compile_config")


def record_no_auto_scale_loss(model: keras.Model) -> None:
    """Record in a compiled `model` that it was compiled with `auto_scale_loss=False`.

    Keras does not record that argument itself, so a saved model would be compiled with
    the default.
    """
    vars(model)[_NO_AUTO_SCALE_LOSS] = True


def _add_auto_scale_loss(stock: Function) -> Function:
    def get_compile_config(self: keras.Model) -> dict[str, Any] | None:
        config: dict[str, Any] | None = stock(self)
        if config and _NO_AUTO_SCALE_LOSS in vars(self):
            return {**config, "auto_scale_loss": False}
        return config

    return get_compile_config


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
    """Call `hook(model)` when `fit` or `train_on_batch` of a model begins."""

    def call_first(stock: Function) -> Function:
        def train(self: keras.Model, *args: Any, **kwargs: Any) -> Any:
            hook(self)
            return stock(self, *args, **kwargs)

        return train

    def mark_files(stock: Function) -> Function:
        def compile_from_config(self: keras.Model, config: dict[str, Any]) -> None:
            with opening_a_file():
                stock(self, config)

        return compile_from_config

    for name in "fit", "train_on_batch":
        _wrap(call_first, name)
    _wrap(mark_files, "compile_from_config")


def _wrap(make_wrapper: Callable[[Function], Function], name: str) -> None:
    wrap(owner_of(keras.Model, name), name, make_wrapper)
