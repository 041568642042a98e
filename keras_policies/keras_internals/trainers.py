"""Patches of `Model.compile`, and of the start of `fit`."""

import inspect
from collections.abc import Callable
from typing import Any, Protocol

import keras

from keras_policies.keras_internals.private_api import LOSS_SCALING, installs
from keras_policies.keras_internals.wrapping import (
    Function,
    Inside,
    instead_of,
    owner_of,
)

# An attribute of a model that was compiled with `auto_scale_loss=False`. TensorFlow
# does not track names with this prefix.
_NO_AUTO_SCALE_LOSS = "_self_keras_policies_no_auto_scale_loss"


def _instead_of(name: str) -> Callable[[Function], None]:
    return instead_of(owner_of(keras.Model, name), name)


class CompileModel(Protocol):
    """Stock `compile`, with the other arguments that the user passed."""

    def __call__(self, *, auto_scale_loss: bool) -> None:
        """Compile the model."""


def around_compile(hook: Callable[[keras.Model, CompileModel, bool], None]) -> None:
    """Run `hook(model, compile_model, auto_scale_loss)` in place of `compile`."""

    @_instead_of("compile")
    def compile(stock: Function, self: keras.Model, *args: Any, **kwargs: Any) -> None:
        bound = inspect.signature(stock).bind(self, *args, **kwargs)
        asked_for = bound.arguments.get("auto_scale_loss", True)
        vars(self).pop(_NO_AUTO_SCALE_LOSS, None)

        def compile_model(*, auto_scale_loss: bool) -> None:
            bound.arguments["auto_scale_loss"] = auto_scale_loss
            stock(*bound.args, **bound.kwargs)

        hook(self, compile_model, asked_for)

    @_instead_of("get_compile_config")
    def get_compile_config(stock: Function, self: keras.Model) -> Any:
        config = stock(self)
        if config and _NO_AUTO_SCALE_LOSS in vars(self):
            return {**config, "auto_scale_loss": False}
        return config


def record_no_auto_scale_loss(model: keras.Model) -> None:
    """Record in a compiled `model` that it was compiled with `auto_scale_loss=False`.

    Keras does not: a saved model would be compiled with the default.
    """
    vars(model)[_NO_AUTO_SCALE_LOSS] = True


# In it, models are compiled because a file says so, not the user.
opening_a_file = Inside()


@installs(LOSS_SCALING)
def after_additional_loss(hook: Callable[[Any], Any]) -> None:
    """Add `hook(loss)` to a model's loss, in place of a layer's loss, a scalar tensor.

    Keras: src/trainers/trainer.py, `Trainer.compute_loss`.
    """

    @_instead_of("_aggregate_additional_loss")
    def aggregate(stock: Function, self: keras.Model, loss: Any) -> Any:
        return hook(stock(self, loss))


def before_training(hook: Callable[[keras.Model], None]) -> None:
    """Call `hook(model)` when `fit` or `train_on_batch` of a model begins."""

    def train(stock: Function, self: keras.Model, *args: Any, **kwargs: Any) -> Any:
        hook(self)
        return stock(self, *args, **kwargs)

    _instead_of("fit")(train)
    _instead_of("train_on_batch")(train)

    @_instead_of("compile_from_config")
    def compile_from_config(stock: Function, self: keras.Model, config: Any) -> None:
        with opening_a_file:
            stock(self, config)
