"""Calls of `keras.ops`, written as functions, operators and keys."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import keras
from keras import ops

from keras_policies.source.layout import Expression, Group, call, flat, literal

Write: TypeAlias = Callable[[Any], Expression]

# Operations of symbolic tensors that Python has an operator for.
OPERATORS = {
    **{"Add": "+", "Subtract": "-", "Multiply": "*", "TrueDivide": "/", "Mod": "%"},
    **{"FloorDivide": "//", "Power": "**", "Matmul": "@"},
    **{"Less": "<", "LessEqual": "<=", "Greater": ">", "GreaterEqual": ">="},
}
# Classes that are not called as their functions are.
RENAMED = {
    "BatchNorm": "batch_normalization",
    "LayerNorm": "layer_normalization",
    "RMSNorm": "rms_normalization",
}
MODULES = "", "image.", "linalg.", "nn.", "numpy."  # of keras.ops
SIMPLE = re.compile(r"[\w.]+")  # ruff writes no spaces around ** between such operands
FEW = 60  # columns of a line with an operator, which cannot be split


def op_call(
    op: keras.Operation,
    config: Mapping[str, Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    write: Write,
) -> Expression:
    """Return the call of an operation of `keras.ops`.

    Args:
        op: the operation.
        config: its own arguments, from its config.
        args: what it is called on, in the form of configs.
        kwargs: the same, by name.
        write: returns the expression of such a value.

    Raises:
        ValueError: if `keras.ops` has no function that takes these arguments.
    """
    kind = type(op).__name__
    if kind == "GetItem":
        return _item(args[0], args[1], write)
    if kind in OPERATORS and len(args) == 2 and not kwargs:
        text = _operator(OPERATORS[kind], *(flat(write(each)) for each in args))
        if text is not None:
            return (text,)
    if kind == "Negative" and SIMPLE.fullmatch(text := flat(write(args[0]))):
        return (f"-{text}",)
    values = {**config, **inspect.signature(op.call).bind(*args, **kwargs).arguments}
    name, function = _function(kind)
    positional, keywords = _arguments(function, values, name)
    written = {key: write(value) for key, value in keywords.items()}
    return call((name,), map(write, positional), written)


def _operator(sign: str, left: str, right: str) -> str | None:
    """Return an operation with an operator, or None if the function is clearer."""
    is_number = left.startswith("-") or left[0].isdigit()
    operands = left, right
    # An array of NumPy on the left would take each of its numbers by itself.
    if any(each[-1:] == ")" for each in operands) or len(left + right) > FEW:
        return None
    if sign == "**":
        if is_number:
            return None
        is_simple = all(SIMPLE.fullmatch(each.lstrip("-")) for each in operands)
        return f"{left}**{right}" if is_simple else f"{left} ** {right}"
    return f"{left} {sign} {right}"


def _item(tensor: Any, key: Any, write: Write) -> Expression:
    keys = key if isinstance(key, list | tuple) else (key,)
    parts = tuple(_slice(each, write) for each in keys)
    if len(keys) == 1 and ":" in flat(parts[0]):
        parts = (*parts, ("...",))  # Keras takes no slice alone
    return (*write(tensor), Group("[", parts or (("()",),), "]", comma=""))


def _slice(key: Any, write: Write) -> Expression:
    """Return an item of a key, such as `1:-1`."""
    if not (isinstance(key, dict) and key.get("class_name") == "__slice__"):
        return write(key)
    start, stop, step = (key["config"][name] for name in ("start", "stop", "step"))
    first, last = ("" if n is None else flat(write(n)) for n in (start, stop))
    return (f"{first}:{last}" + ("" if step is None else f":{flat(write(step))}"),)


def _function(kind: str) -> tuple[str, Callable[..., Any]]:
    """Return the name and the function of a class: the one with the same letters."""
    letters = RENAMED.get(kind, kind).replace("_", "").lower()
    for prefix in MODULES:
        module = getattr(ops, prefix[:-1]) if prefix else ops
        for name in dir(module):
            if name.replace("_", "") == letters:
                return f"ops.{prefix}{name}", getattr(module, name)
    raise ValueError(f"keras.ops has no function for the operation {kind}")


def _arguments(
    function: Callable[..., Any], values: Mapping[str, Any], name: str
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a function, without those at their defaults."""
    remaining = dict(values)
    args, kwargs = list[Any](), dict[str, Any]()
    for key, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += remaining.pop(key, ())
        elif parameter.kind is parameter.VAR_KEYWORD:
            kwargs |= remaining.pop(key, {})
        elif key in remaining:
            value = remaining.pop(key)
            if parameter.default is parameter.empty and not kwargs:
                args.append(value)
            elif not is_plainly(value, parameter.default):
                kwargs[key] = value
    if unknown := [key for key, value in remaining.items() if value is not None]:
        raise ValueError(f"{name} takes no {', '.join(unknown)}")
    return args, kwargs


def is_plainly(value: Any, default: Any) -> bool:
    """Return whether a plain value is the same as a default."""
    plain = bool, int, float, str, type(None)
    return isinstance(value, plain) and literal(value) == literal(default)
