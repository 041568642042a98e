"""Writes calls of `keras.ops` as functions, operators and keys."""

import ast
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import keras
from keras import ops

from keras_policies.source import live
from keras_policies.source.calls import is_plainly
from keras_policies.source.errors import CannotWriteError
from keras_policies.source.layout import is_simple
from keras_policies.source.objects import arguments
from keras_policies.source.tree import Node, call

Write: TypeAlias = Callable[[Any], Node]

# Operations on symbolic tensors that have a Python operator.
OPERATORS = {
    **{"Add": ast.Add, "Subtract": ast.Sub, "Multiply": ast.Mult, "Mod": ast.Mod},
    **{"TrueDivide": ast.Div, "FloorDivide": ast.FloorDiv, "Power": ast.Pow},
    **{"Matmul": ast.MatMult, "Less": ast.Lt, "LessEqual": ast.LtE},
    **{"Greater": ast.Gt, "GreaterEqual": ast.GtE},
}
# Class -> function, for names with different letters.
RENAMED = {
    **{"BatchNorm": "batch_normalization", "LayerNorm": "layer_normalization"},
    **{"RMSNorm": "rms_normalization"},
}
MODULES = "", "image.", "linalg.", "nn.", "numpy."  # of keras.ops


def op_call(
    op: keras.Operation, args: Sequence[Any], kwargs: Mapping[str, Any], write: Write
) -> Node:
    """Return the call of an operation; `write` turns its arguments into code.

    Raise `CannotWriteError` if no function in keras.ops takes them.
    """
    kind = type(op).__name__
    if not live.is_of_keras(type(op)):
        raise CannotWriteError(f"keras.ops has no function for {kind}")
    if kind == "GetItem":
        return ast.Subscript(write(args[0]), _key(args[1], write), ast.Load())
    is_operator = kind in OPERATORS and len(args) == 2 and not kwargs
    if is_operator and (node := _operator(OPERATORS[kind](), *map(write, args))):
        return node
    if kind == "Negative" and is_simple(value := write(args[0])):
        return ast.UnaryOp(ast.USub(), value)
    called = inspect.signature(op.call).bind(*args, **kwargs).arguments
    config = {key: value for key, value in op.get_config().items() if key != "name"}
    name, function = _function(kind)
    parameters = inspect.signature(function).parameters
    # In Keras 3.8, a few names differ: `xs` of Stack is `x` in ops.stack.
    unnamed = [key for key in called if key not in parameters]
    required = [k for k, p in parameters.items() if p.default is p.empty]
    others = [key for key in required if key not in {**config, **called}]
    names = dict(zip(unnamed, others, strict=False))
    values = {names.get(k, k): v for k, v in {**config, **called}.items()}
    for key in [*values]:
        default = parameters[key].default if key in parameters else None
        if is_plainly(values[key], default) and key not in called:
            del values[key]
    if unknown := [key for key in values if key not in parameters]:
        raise CannotWriteError(f"{name} does not take {', '.join(unknown)}")
    written, keywords = arguments(function, values, called)
    return call(name, map(write, written), {k: write(v) for k, v in keywords.items()})


def _operator(sign: Any, left: Node, right: Node) -> Node | None:
    """Return an operation with its operator, or None if it needs the function."""
    # A NumPy array on the left would apply the operator to each of its numbers.
    is_array = isinstance(left, ast.List) or _reads_constants(left)
    # The line of a call may need splitting.
    is_long = any(isinstance(x, ast.Call | ast.Tuple) for x in (left, right))
    is_number = isinstance(left, ast.Constant | ast.UnaryOp)
    if is_array or is_long or (isinstance(sign, ast.Pow) and is_number):
        return None
    if isinstance(sign, ast.cmpop):
        return ast.Compare(left, [sign], [right])
    return ast.BinOp(left, sign, right)


def _reads_constants(node: Node) -> bool:
    is_item = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
    return is_item and node.value.id == "CONSTANTS"


def _key(key: Any, write: Write) -> Node:
    """Return the node of a key in brackets, such as `:, 1:-1`."""
    if isinstance(key, list | tuple):  # Keras does not accept a single slice
        return ast.Tuple([_key(each, write) for each in key], ast.Load())
    if not isinstance(key, slice):
        return write(key)
    ends = key.start, key.stop, key.step
    return ast.Slice(*(None if n is None else write(n) for n in ends))


@functools.cache
def _function(kind: str) -> tuple[str, Callable[..., Any]]:
    """Return the name and the function of a class: its name has the same letters."""
    letters = RENAMED.get(kind, kind).replace("_", "").lower()
    for prefix in MODULES:
        module = getattr(ops, prefix[:-1]) if prefix else ops
        for name in dir(module):
            if name.replace("_", "") == letters:
                return f"ops.{prefix}{name}", getattr(module, name)
    raise CannotWriteError(f"keras.ops has no function for {kind}")
