"""Functions of `keras.ops` that also take sizes and constants.

They are looked up when they are called: the oldest supported Keras lacks some.
"""

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from keras_policies.late import keras, keras_internals, ops
from keras_policies.legacy.ops import kinds, sizes
from keras_policies.legacy.ops.kinds import Operand, Tensor
from keras_policies.legacy.ops.registry import Op, Raw, enter

Plain: TypeAlias = Callable[..., Any] | None
# Name in keras.ops, the same function for numbers or None if it takes only tensors,
# names in TensorFlow, ops in a graph; several names are separated by blanks.
Row: TypeAlias = tuple[str, Plain, str, str]
ORDERS = "greater", "greater_equal", "less", "less_equal"


def named(name: str) -> Callable[..., Tensor]:
    """Return a function of `keras.ops`, or raise ValueError if this Keras lacks it."""
    try:
        found: Callable[..., Tensor] = operator.attrgetter(name)(ops)
    except AttributeError as error:
        raise ValueError(f"this Keras has no keras.ops.{name}") from error
    return found


def constant(value: Operand, like: Tensor) -> Operand:
    """Return an operand in the dtype of the tensor beside it, as TensorFlow takes it.

    A Python number stays one: Keras, too, gives it the dtype of the tensor.
    """
    value = sizes.as_tensor(value)
    if kinds.is_tensor(value) or np.ndim(value) == 0:
        return value
    return np.asarray(value, dtype=like.dtype)


def together(*values: Operand) -> list[Operand]:
    """Return operands, at least one a tensor, with the constants in its dtype."""
    like = next(filter(kinds.is_tensor, values), None)
    if like is None:
        raise ValueError(f"expected a tensor of the model among {values}")
    return [constant(value, like) for value in values]


def apply(symbolic: Callable[..., Tensor], plain: Plain, *values: Operand) -> Operand:
    """Apply `symbolic` to tensors, or else `plain` to sizes and constants."""
    if any(map(kinds.is_tensor, values)):
        return symbolic(*together(*values))
    if plain is None:
        return kinds.tensor(values[0])
    lists = [v.tolist() if isinstance(v, np.ndarray) else v for v in values]
    return sizes.combine(symbolic, plain, *lists)


def of_tensors(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function whose parameters are tensors, or several with constants."""
    names = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(**given: Operand) -> Tensor:
        return function(*together(*given.values()))

    kind = Operand if len(names) > 1 else Tensor
    checked.__annotations__ = dict.fromkeys(names, kind)
    return checked


def _unary(name: str, plain: Plain) -> Callable[..., Operand]:
    def function(x: Operand) -> Operand:
        return apply(named(name), plain, x)

    return function


def _is_drawn(x: Operand) -> bool:
    """Return whether an operand is random numbers, put through functions or not."""
    if kinds.is_tensor(x):
        for operation, inputs, _ in keras_internals.calls_before(x):
            if isinstance(operation, keras.layers.GaussianNoise):
                return True
            if len(inputs) != 1:
                break
    return False


def _binary(name: str, plain: Plain) -> Callable[..., Operand]:
    def function(x: Operand, y: Operand) -> Operand:
        if name in ORDERS and (_is_drawn(x) or _is_drawn(y)):
            reason = "a mask of random numbers, which Keras draws in training only"
            raise ValueError(reason)
        return apply(named(name), plain, x, y)

    return function


def register(parameters: str, *rows: Row) -> None:
    """Enter functions of the parameters `"x"` or `"x y"` into the table."""
    make = {"x": _unary, "x y": _binary}[parameters]
    for name, plain, names, nodes in rows:
        raw = dict.fromkeys(nodes.split(), Raw(parameters))
        known = names.split()
        enter(Op(known[0], make(name, plain), {}), known, raw)
