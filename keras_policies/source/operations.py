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
# Class -> function, if their letters differ.
RENAMED = {
    **{"BatchNorm": "batch_normalization", "LayerNorm": "layer_normalization"},
    **{"RMSNorm": "rms_normalization"},
}
MODULES = "", "image.", "linalg.", "nn.", "numpy."  # of keras.ops
SIMPLE = re.compile(r"-?[\w.]+")  # ruff writes no spaces around ** between these
LONG = 60  # columns of two operands, which cannot be split


def op_call(
    op: keras.Operation,
    config: Mapping[str, Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    write: Write,
) -> Expression:
    """Return the call of an operation, or raise ValueError if no function takes it.

    `config` has its own arguments; `args` and `kwargs` are what it is called on, as
    values of configs, which `write` turns into expressions.
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
    called = inspect.signature(op.call).bind(*args, **kwargs).arguments
    name, function = _function(kind)
    positional, keywords = _arguments(function, {**config, **called}, [*called], name)
    return call(
        name, map(write, positional), {k: write(v) for k, v in keywords.items()}
    )


def _operator(sign: str, left: str, right: str) -> str | None:
    """Return an operation with an operator, or None if only the function will do."""
    # An array of NumPy on the left would take each of its numbers by itself.
    is_array = left.startswith(("[", "CONSTANTS"))
    is_call = left.endswith(")") or right.endswith(")")  # it may have to be split
    is_power_of_number = sign == "**" and re.match(r"[-\d]", left)
    if is_array or is_call or is_power_of_number or len(left + right) > LONG:
        return None
    is_close = sign == "**" and SIMPLE.fullmatch(left) and SIMPLE.fullmatch(right)
    return f"{left}{sign}{right}" if is_close else f"{left} {sign} {right}"


def _item(tensor: Any, key: Any, write: Write) -> Expression:
    keys = key if isinstance(key, list | tuple) else (key,)
    parts = tuple(_slice(each, write) for each in keys)
    if len(keys) == 1 and ":" in flat(parts[0]):
        parts = (*parts, ("...",))  # Keras takes no slice alone
    return (*write(tensor), Group("[]", parts or (("()",),), last=""))


def _slice(key: Any, write: Write) -> Expression:
    """Return an item of a key, such as `1:-1`."""
    if not (isinstance(key, dict) and key.get("class_name") == "__slice__"):
        return write(key)
    first, last, step = (key["config"][name] for name in ("start", "stop", "step"))
    ends = ["" if n is None else flat(write(n)) for n in (first, last)]
    return (":".join([*ends, *([] if step is None else [flat(write(step))])]),)


def _function(kind: str) -> tuple[str, Callable[..., Any]]:
    """Return the name and the function of a class: the one with the same letters."""
    letters = RENAMED.get(kind, kind).replace("_", "").lower()
    for prefix in MODULES:
        module = getattr(ops, prefix[:-1]) if prefix else ops
        for name in dir(module):
            if name.replace("_", "") == letters:
                return f"ops.{prefix}{name}", getattr(module, name)
    raise ValueError(f"keras.ops has no function for {kind}")


def _arguments(
    function: Callable[..., Any],
    values: Mapping[str, Any],
    called: Sequence[str],
    name: str,
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a function, without those at their defaults."""
    parameters = inspect.signature(function).parameters
    # Keras 3.8 calls a few of them otherwise: `xs` in Stack is `x` in ops.stack.
    required = [k for k, p in parameters.items() if p.default is p.empty]
    unnamed = [key for key in called if key not in parameters]
    names = dict(zip(unnamed, [k for k in required if k not in values], strict=False))
    remaining = {names.get(key, key): value for key, value in values.items()}
    args, kwargs = list[Any](), dict[str, Any]()
    is_next = True  # whether no argument before was left out or named
    for key, parameter in parameters.items():
        is_needed = parameter.default is parameter.empty or key in called
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += remaining.pop(key, ())
        elif parameter.kind is parameter.VAR_KEYWORD:
            kwargs |= remaining.pop(key, {})
        elif is_next and is_needed and key in remaining:
            args.append(remaining.pop(key))
        else:
            is_next = False
            value = remaining.pop(key, parameter.default)
            if value is not parameter.default and not is_plainly(
                value, parameter.default
            ):
                kwargs[key] = value
    if unknown := [key for key, value in remaining.items() if value is not None]:
        raise ValueError(f"{name} takes no {', '.join(unknown)}")
    return args, kwargs


def is_plainly(value: Any, default: Any) -> bool:
    """Return whether a plain value is the same as a default."""
    is_plain = value is None or isinstance(value, bool | int | float | str)
    return is_plain and literal(value) == literal(default)
