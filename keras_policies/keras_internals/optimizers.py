"""Small accessors of optimizers, for what has no public name.

Keras: src/optimizers/base_optimizer.py.
"""

from typing import Any

import keras

from keras_policies.keras_internals.layers import no_automatic_dependency_tracking

# Names of the variables that `apply` reads again for each variable that it updates.
SHARED = {"iteration", "learning_rate"}


def create_instead(cls: type, replacement: type) -> None:
    """Let `cls(...)` create a `replacement`, a subclass that takes the same arguments.

    Python then calls `replacement.__init__`. Subclasses of `cls` stay as they are.
    """

    def __new__(created: type, *args: Any, **kwargs: Any) -> Any:
        made = replacement if created is cls else created
        return object.__new__(made)

    cls.__new__ = __new__  # type: ignore[assignment]


def step_count(optimizer: keras.optimizers.Optimizer) -> keras.Variable:
    """Return the variable in which an optimizer counts its own calls of `apply`.

    The public `iterations` gives the count of an inner optimizer, or of updates only
    where gradients are accumulated.
    """
    return optimizer._iterations


def updated_variables(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """Return the variables that an optimizer was built to update."""
    return list(optimizer._trainable_variables)


@no_automatic_dependency_tracking
def update_instead(wrapper: Any, variables: list[keras.Variable]) -> None:
    """Let a wrapper and its inner optimizer, both built, update other variables.

    Args:
        wrapper: a built `LossScaleOptimizer`.
        variables: as many as it was built with, of the same shapes.
    """
    for optimizer in wrapper, wrapper.inner_optimizer:
        optimizer._trainable_variables = list(variables)
        indices = {optimizer._var_key(v): i for i, v in enumerate(variables)}
        optimizer._trainable_variables_indices = indices


def shared_variables(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """Return the variables that `apply` reads again for each variable it updates."""
    return [v for v in optimizer.variables if v.name in SHARED]
