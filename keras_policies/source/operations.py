"""Writes calls of `keras.ops` as functions, operators and keys."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import keras
from keras import ops

from keras_policies.source.calls import is_plainly
from keras_policies.source.layout import call
from keras_policies.source.objects import CannotWriteError, arguments

Write: TypeAlias = Callable[[Any], str]

# Operations on symbolic tensors that have a Python operator.
OPERATORS = {
    **{"Add": "+", "Subtract": "-", "Multiply": "*", "TrueDivide": "/", "Mod": "%"},
    **{"FloorDivide": "//", "Power": "**", "Matmul": "@"},
    **{"Less": "<", "LessEqual": "<=", "Greater": ">", "GreaterEqual": ">="},
}
# Class -> function, for names with different letters.
RENAMED = {
    **{"BatchNorm": "batch_normalization", "LayerNorm": "layer_normalization"},
    **{"RMSNorm": "rms_normalization"},
}
MODULES = "", "image.", "linalg.", "nn.", "numpy."  # of keras.ops
SIMPLE = re.compile(
    r"\0\d+\0|-?[\w.]+"
)  # ruff writes no spaces around ** between these


def op_call(
    op: keras.Operation, args: Sequence[Any], kwargs: Mapping[str, Any], write: Write
) -> str:
    """Return the call of an operation; `write` turns its arguments into code.

    Raise `CannotWriteError` if no function in keras.ops takes them.
    """
    kind = type(op).__name__
    if kind == "GetItem":
        return f"{write(args[0])}[{_key(args[1], write)}]"
    is_operator = kind in OPERATORS and len(args) == 2 and not kwargs
    if is_operator and (text := _operator(OPERATORS[kind], *map(write, args))):
        return text
    if kind == "Negative" and SIMPLE.fullmatch(text := write(args[0])):
        return f"-{text}"
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


def _operator(sign: str, left: str, right: str) -> str | None:
    """Return an operation with its operator, or None if it needs the function."""
    # A NumPy array on the left would apply the operator to each of its numbers.
    is_array = left.startswith(("[", "CONSTANTS"))
    is_call = left.endswith(")") or right.endswith(")")  # its line may need splitting
    if is_array or is_call or (sign == "**" and re.match(r"[-\d]", left)):
        return None
    is_close = sign == "**" and SIMPLE.fullmatch(left) and SIMPLE.fullmatch(right)
    return f"{left}{sign}{right}" if is_close else f"{left} {sign} {right}"


def _key(key: Any, write: Write) -> str:
    """Return the code of a key in brackets, such as `:, 1:-1`."""
    if isinstance(key, list | tuple):
        comma = "," * (len(key) == 1)  # Keras does not accept a single slice
        return ", ".join(_key(each, write) for each in key) + comma or "()"
    if not isinstance(key, slice):
        return write(key)
    ends = ["" if n is None else write(n) for n in (key.start, key.stop)]
    return ":".join([*ends, *([] if key.step is None else [write(key.step)])])


def _function(kind: str) -> tuple[str, Callable[..., Any]]:
    """Return the name and the function of a class: its name has the same letters."""
    letters = RENAMED.get(kind, kind).replace("_", "").lower()
    for prefix in MODULES:
        module = getattr(ops, prefix[:-1]) if prefix else ops
        for name in dir(module):
            if name.replace("_", "") == letters:
                return f"ops.{prefix}{name}", getattr(module, name)
    raise CannotWriteError(f"keras.ops has no function for {kind}")
