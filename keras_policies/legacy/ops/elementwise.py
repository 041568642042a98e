"""Functions of `keras.ops` that TensorFlow has under another name, as rows of tables.

They are looked up when they are called: the oldest supported Keras lacks some.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from keras_policies.late import keras, keras_internals
from keras_policies.legacy.ops.kinds import Value
from keras_policies.legacy.ops.registry import Op, Raw, enter
from keras_policies.legacy.values.evaluator import evaluate, is_tensor

# Name in keras.ops, names in TensorFlow, ops in a graph; several names are separated by
# blanks.
Row: TypeAlias = tuple[str, str, str]
ORDERS = "greater", "greater_equal", "less", "less_equal"


def of_values(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose parameters are all values."""
    checked = functools.wraps(function)(lambda **named: function(**named))
    checked.__annotations__ = dict.fromkeys(
        inspect.signature(function).parameters, Value
    )
    return checked


def _is_drawn(x: Any) -> bool:
    """Return whether an operand is random numbers, put through functions or not."""
    if is_tensor(x):
        for operation, inputs, _ in keras_internals.calls_before(x):
            if isinstance(operation, keras.layers.GaussianNoise):
                return True
            if len(inputs) != 1:
                break
    return False


def _binary(name: str) -> Callable[..., Any]:
    def function(x: Value, y: Value) -> Value:
        if name in ORDERS and (_is_drawn(x) or _is_drawn(y)):
            reason = "a mask of random numbers, which Keras draws in training only"
            raise ValueError(reason)
        return evaluate(name, x, y)

    return function


def _unary(name: str) -> Callable[..., Any]:
    def function(x: Value) -> Value:
        return evaluate(name, x)

    return function


def register(parameters: str, *rows: Row) -> None:
    """Enter functions of the parameters `"x"` or `"x y"` into the table."""
    make = {"x": _unary, "x y": _binary}[parameters]
    for name, names, nodes in rows:
        raw = dict.fromkeys(nodes.split(), Raw(parameters))
        known = names.split()
        enter(Op(known[0], make(name), {}), known, raw)
