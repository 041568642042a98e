"""Variables and optimizers: raw values, their slots, models about to be read.

Keras: src/backend/common/variables.py, src/optimizers/base_optimizer.py.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import keras
import ml_dtypes
import numpy as np
from keras import backend, initializers

from keras_policies.keras_internals import private_api as private
from keras_policies.keras_internals.patches import Function, owner_of, patched, replaces
from keras_policies.keras_internals.private_api import LOSS_SCALING, needs

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


# Both return what the constructor of a variable takes without computing.
Place = Callable[["np.ndarray[Any, Any]"], Any]
Zeros = Callable[[tuple[int, ...], "np.dtype[Any]"], Any]
Spend = Callable[[int, int], None]  # takes size and item size (bytes) of each array


@needs(LOSS_SCALING)
def raw_value(variable: keras.Variable) -> Any:
    """Return the backend's tensor of a variable; `value` looks for scopes first."""
    return variable._value


@contextlib.contextmanager
def blank_variables(place: Place, zeros: Zeros, spend: Spend) -> Iterator[None]:
    """Create variables without drawing, tracing or compiling their values.

    A variable with a constant initializer (an optimizer's slot, for example) gets its
    value from numpy. One with a random initializer is zero until it is assigned.
    `spend` raises if the arrays become too large. Other initializers in the configs
    would be saved with the model, and not be those of layers made in code.
    """

    def _init(
        stock: Function,
        self: keras.Variable,
        initializer: Any,
        shape: Any = None,
        dtype: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if isinstance(initializer, int | float) and dtype is not None:
            initializer = place(np.asarray(initializer, _numpy_dtype(dtype)))
        elif callable(initializer) or isinstance(initializer, str):
            initializer = _from_numpy(initializer, place, zeros, spend)
        stock(self, initializer, shape, dtype, *args, **kwargs)

    def initial_state(stock: Function, self: keras.layers.RNN, batch_size: Any) -> Any:
        # One state for each example. Keras fills them with zeros before it makes
        # variables of them.
        if isinstance(batch_size, int):
            sizes = keras.tree.flatten(self.cell.state_size)
            if hasattr(self.cell, "spatial_dims"):  # a convolution, with two pictures
                sizes = [2 * self.cell.filters * math.prod(self.cell.spatial_dims)]
            spend(batch_size * sum(sizes), 4)
        return stock(self, batch_size)

    with (
        patched(owner_of(keras.Variable, "__init__"), "__init__", _init),
        patched(keras.layers.RNN, "get_initial_state", initial_state),
    ):
        yield


def _from_numpy(initializer: Any, place: Place, zeros: Zeros, spend: Spend) -> Any:
    """Return an initializer with the values of `initializer`, made by numpy."""
    instance = initializers.get(initializer)
    if not isinstance(instance, initializers.Initializer):
        return initializer  # a function, of the user or of a seed generator
    value = 1 if type(instance) is initializers.Ones else None
    if isinstance(instance, initializers.Constant):
        value = instance.value

    def fill(shape: tuple[int, ...], dtype: Any = None, **kwargs: Any) -> Any:
        dtype = _numpy_dtype(dtype)
        spend(math.prod(shape), dtype.itemsize)
        if value is None:
            return zeros(shape, dtype)
        return place(np.full(shape, value, dtype))

    return fill


def _numpy_dtype(dtype: Any) -> np.dtype[Any]:
    name = str(backend.standardize_dtype(dtype))
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)
