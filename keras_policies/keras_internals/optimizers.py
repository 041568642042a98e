"""Accessors of optimizers, and of a model's losses, that have no public name.

Keras: src/optimizers/*.py, src/trainers/trainer.py.
"""

from collections.abc import Callable
from typing import Any

import keras

from keras_policies.keras_internals import private_api as private
from keras_policies.keras_internals.patches import Function, replaces

# Names of the variables that `apply` reads again for each variable that it updates.
SHARED = {"iteration", "learning_rate"}


@private.needs(private.LOSS_SCALING)
def step_count(optimizer: keras.optimizers.Optimizer) -> keras.Variable:
    """Return the variable in which an optimizer counts its own calls of `apply`.

    The public `iterations` gives the count of an inner optimizer, or of updates only
    where gradients are accumulated.
    """
    return optimizer._iterations


@private.needs(private.LOSS_SCALING)
def updated_variables(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """Return the variables that an optimizer was built to update."""
    return list(optimizer._trainable_variables)


@private.needs(private.UNPICKLING)
def update_instead(wrapper: Any, variables: list[keras.Variable]) -> None:
    """Let a wrapper and its inner optimizer, both built, update other variables."""
    for optimizer in wrapper, wrapper.inner_optimizer:
        indices = optimizer._trainable_variables_indices
        indices.clear()
        indices.update({optimizer._var_key(v): i for i, v in enumerate(variables)})
        # Set so that Keras does not count the weights among the optimizer's variables.
        vars(optimizer)["_trainable_variables"] = list(variables)


def shared_variables(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """Return the variables that `apply` reads again for each variable it updates."""
    return [v for v in optimizer.variables if v.name in SHARED]


def slot_names(optimizer: keras.optimizers.Optimizer) -> list[str]:
    """Return the names in tf.keras of an optimizer's slots; none if it is not known."""
    return list(_attributes(optimizer))


def slots(
    optimizer: keras.optimizers.Optimizer, name: str
) -> dict[int, keras.Variable]:
    """Return a built optimizer's slots of one name, by the `id` of their variables.

    Keras keeps them in lists, which are empty or missing where a setting, such as a
    momentum of 0, makes them useless. Adafactor's have placeholders, omitted here.
    """
    slot_variables = getattr(optimizer, _attributes(optimizer)[name], None) or ()
    pairs = zip(optimizer._trainable_variables, slot_variables, strict=False)
    return {
        id(variable): slot
        for variable, slot in pairs
        if len(slot.shape) or not len(variable.shape)
    }


def nadam_product(optimizer: keras.optimizers.Nadam) -> keras.Variable:
    """Return the variable in which Nadam keeps the product of its momenta."""
    return optimizer._u_product


def _attributes(optimizer: keras.optimizers.Optimizer) -> dict[str, str]:
    classes = (base.__name__ for base in type(optimizer).__mro__)
    known = next(
        (private.SLOTS[name] for name in classes if name in private.SLOTS), None
    )
    if known is None:
        return {}
    has_more = optimizer.built and len(optimizer.variables) > len(SHARED)
    if has_more and not any(hasattr(optimizer, name) for name in known.values()):
        place = f"{' or '.join(sorted(known.values()))} in {type(optimizer).__name__}"
        raise private.UnsupportedKerasError(
            private.SLOTS_OF_OPTIMIZERS, place, "none", tuple(private.PRIVATE_API)
        )
    return {**known, **private.AVERAGES}


def record_no_auto_scale_loss(model: keras.Model) -> None:
    """Record in a compiled model that `auto_scale_loss` was False: Keras does not."""
    model._compile_config.config["auto_scale_loss"] = False


def after_additional_loss(hook: Callable[[keras.Model, Any], Any]) -> None:
    """Add `hook(model, loss)` to a model's loss, in place of a layer's scalar loss."""

    @replaces("keras.Model._aggregate_additional_loss", needs=private.LOSS_SCALING)
    def aggregate(stock: Function, self: keras.Model, loss: Any) -> Any:
        return hook(self, stock(self, loss))
