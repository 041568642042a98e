"""Small accessors of optimizers, for what has no public name.

Keras: src/optimizers/base_optimizer.py.
"""

from typing import Any

import keras


def create_instead(cls: type, replacement: type) -> None:
    """Let `cls(...)` create a `replacement`, a subclass that takes the same arguments.

    Python then calls `replacement.__init__`. Subclasses of `cls` stay as they are.
    """

    def __new__(created: type, *args: Any, **kwargs: Any) -> Any:
        made = replacement if created is cls else created
        return object.__new__(made)

    cls.__new__ = __new__  # type: ignore[assignment]


# Names of the variables that `apply` reads again for each variable that it updates.
SHARED = {"iteration", "learning_rate"}


def step_count(optimizer: keras.optimizers.Optimizer) -> keras.Variable:
    """Return the variable in which an optimizer counts its own calls of `apply`.

    The public `iterations` gives the count of an inner optimizer, or of updates only
    where gradients are accumulated.
    """
    return optimizer._iterations


def updated_variables(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """Return the variables that an optimizer was built to update."""
    return list(optimizer._trainable_variables)


def shared_variables(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """Return the variables that `apply` reads again for each variable it updates."""
    return [v for v in optimizer.variables if v.name in SHARED]
