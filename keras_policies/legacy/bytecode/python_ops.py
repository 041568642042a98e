"""Operators, functions and constants of Python, numpy and math, for all values.

A `tuple` is a sequence of Python; numbers, arrays, dimensions and tensors go to the
evaluator, and numpy's functions are those of `keras.ops` with the same name.
"""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from keras_policies.legacy.bytecode import values
from keras_policies.legacy.guards import budget, limits
from keras_policies.legacy.ops import array_indexing, converters
from keras_policies.legacy.ops.math_reductions import TopK
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.evaluator import (
    array,
    dtype_of,
    evaluate,
    has_dims,
    is_integer_dtype,
    is_tensor,
)

# Operator -> the function of keras.ops, and that of Python's own values.
OPERATORS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "+": ("add", operator.add),
    "-": ("subtract", operator.sub),
    "*": ("multiply", operator.mul),
    "/": ("true_divide", operator.truediv),
    "//": ("floor_divide", operator.floordiv),
    "%": ("mod", operator.mod),
    "**": ("power", operator.pow),
    "@": ("matmul", operator.matmul),
    "<<": ("", operator.lshift),
    ">>": ("", operator.rshift),
    "&": ("and", operator.and_),  # of bools "logical_and", of integers "bitwise_and"
    "|": ("or", operator.or_),
    "^": ("xor", operator.xor),
    "<": ("less", operator.lt),
    "<=": ("less_equal", operator.le),
    "==": ("equal", operator.eq),
    "!=": ("not_equal", operator.ne),
    ">": ("greater", operator.gt),
    ">=": ("greater_equal", operator.ge),
    "is": ("", lambda x, y: x is y or (x == y and type(x) is type(y))),
    "is not": ("", lambda x, y: not (x is y or (x == y and type(x) is type(y)))),
    "in": ("", lambda x, y: x in y),
    "not in": ("", lambda x, y: x not in y),
}
ON_ONE: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "-": ("negative", operator.neg),
    "+": ("", operator.pos),
    "~": ("logical_not", operator.invert),
    "not": ("", operator.not_),
}
CONSTANTS: Mapping[str, Any] = {
    **{f"numpy.{name}": getattr(np, name) for name in ("pi", "e", "inf", "nan")},
    **{f"math.{name}": getattr(math, name) for name in ("pi", "e", "inf", "nan")},
    "numpy.newaxis": None,
}
DTYPES = (
    *("bool", "float16", "float32", "float64", "int16", "int32", "int64", "int8"),
    "uint8",
)
NUMBERS = "biuf"  # kinds of dtypes in numpy
# Functions of numpy that keras.ops has under the same name.
NUMPY_FUNCTIONS = {
    *("abs", "add", "arctan", "arctan2", "cbrt", "ceil", "cos", "cosh", "deg2rad"),
    *("divide", "exp", "expand_dims", "expm1", "floor", "log", "log10", "log1p"),
    *("log2", "max", "maximum", "mean", "min", "minimum", "multiply", "negative"),
    *("power", "prod", "rad2deg", "ravel", "sign", "sin", "sinh", "sqrt", "square"),
    *("squeeze", "std", "subtract", "sum", "tan", "tanh", "transpose", "var"),
}
MATH_FUNCTIONS = (
    *("ceil", "cos", "exp", "floor", "log", "log10", "pow", "sin", "sqrt", "tan"),
)


def is_value(value: Any) -> bool:
    """Return whether the evaluator computes with a value: it has a dtype."""
    is_array = isinstance(value, np.ndarray | np.generic)
    return is_array or has_dims(value) or is_tensor(value)


def binary(symbol: str, x: Any, y: Any) -> Any:
    """Return `x symbol y`; the symbol `"2/"` is the `/` of Python 2."""
    if symbol == "2/":
        symbol = "//" if _is_integer(x) and _is_integer(y) else "/"
    name, on_numbers = OPERATORS[symbol]
    if is_value(x) or is_value(y):
        if symbol in ("is", "is not") and (x is None or y is None):
            return symbol == "is not"
        if not name:
            raise ValueError(f"{symbol!r} of a tensor")
        if symbol in "&|^":
            is_bool = dtype_of(x if is_value(x) else y) == "bool"
            name = f"{'logical' if is_bool else 'bitwise'}_{name}"
        return evaluate(name, _numbers(x), _numbers(y))
    _check_growth(symbol, x, y)
    result = on_numbers(x, y)
    values.check_size(result)
    return result


def _is_integer(value: Any) -> bool:
    is_int = isinstance(value, int)
    return is_integer_dtype(dtype_of(value)) if is_value(value) else is_int


def _numbers(value: Any) -> Any:
    """Return a value if it is of numbers: Python's own may grow without limit."""
    if not is_tensor(value) and not has_dims(value):
        items = array(value) if isinstance(value, tuple) else value
        if not is_value(items) and np.asarray(items).dtype.kind not in NUMBERS:
            raise ValueError(f"{str(value)[:80]!r}, where numbers are expected")
    return value


def _check_growth(symbol: str, x: Any, y: Any) -> None:
    """Raise ValueError for an operation whose result may not fit into memory."""
    if isinstance(x, str | bytes) and symbol == "%":
        raise ValueError("a text that is put together")
    for value, times in ((x, y), (y, x)):
        if symbol != "*" or not isinstance(value, tuple | str | bytes):
            continue
        if not isinstance(times, int) or len(value) * times > limits.CODE_ITEMS:
            raise ValueError(f"a sequence repeated {str(times)[:20]} times")
    if symbol in ("**", "<<") and isinstance(x, int) and isinstance(y, int):
        bits = y + x.bit_length() if symbol == "<<" else x.bit_length() * abs(y)
        if bits > limits.CODE_BITS:
            raise ValueError(f"a number of {str(bits)[:20]} bits")


def unary(symbol: str, x: Any) -> Any:
    """Return `symbol x`."""
    name, on_numbers = ON_ONE[symbol]
    return evaluate(name, x) if is_value(x) and name else on_numbers(x)


def subscript(value: Any, key: Any) -> Any:
    """Return `value[key]`."""
    if not is_value(value):
        return value[key]
    if is_value(key) and computed.rank(key):
        is_mask = dtype_of(key) == "bool"
        take = array_indexing.boolean_mask if is_mask else array_indexing.gather
        return take(value, key)
    items = key if isinstance(key, tuple) else (key,)
    return computed.index(value, [*map(_item, items)])


def _item(item: Any) -> Any:
    if isinstance(item, slice):
        parts = values.parts(item)
        return slice(*(None if x is None else converters.length(x) for x in parts))
    return item if item is None or item is Ellipsis else array_indexing.position(item)


def unpack(value: Any, count: int) -> tuple[Any, ...]:
    """Return the `count` items of a sequence, as `a, b = value` does."""
    if is_tensor(value):
        return tuple(evaluate("unstack", value, count))
    items = tuple(value)
    if len(items) != count:
        raise ValueError(f"{len(items)} values, where {count} are expected")
    return items


def attribute(value: Any, name: str) -> Any:
    """Return an attribute of a tensor, or of its shape."""
    if is_tensor(value) and name in ("shape", "dtype", "ndim"):
        sizes = {"shape": tuple(value.shape), "ndim": len(value.shape)}
        return {**sizes, "dtype": value.dtype}[name]
    if name == "T" and is_value(value):
        return evaluate("transpose", value, axes=[*range(computed.rank(value))][::-1])
    if isinstance(value, TopK):
        return {"values": value.values, "indices": value.indices}[name]
    if isinstance(value, tuple) and name in ("ndims", "rank"):
        return len(value)
    if isinstance(value, int | None) and name == "value":  # a Dimension of TensorFlow 1
        return value
    if isinstance(value, str) and name in ("base_dtype", "name"):
        return value
    if isinstance(value, np.ndarray) and name in ("shape", "ndim", "dtype", "size"):
        return getattr(value, name)
    raise ValueError(f"the attribute {name!r}")


def method(value: Any, name: str) -> Any:
    """Return what a method of a tensor or of its shape returns without arguments."""
    if is_tensor(value) and name == "get_shape":
        return tuple(value.shape)
    if isinstance(value, tuple) and name == "as_list":
        return value
    raise ValueError(f"the method {name!r}")


def _length(value: Any) -> int:
    return converters.integer(value.shape[0]) if is_tensor(value) else len(value)


def _range(*bounds: int) -> tuple[int, ...]:
    numbers = range(*map(converters.integer, bounds))
    if len(numbers) > limits.CODE_ITEMS:
        raise ValueError(f"{len(numbers)} rounds")
    return tuple(numbers)


def _sum(items: Any, start: Any = 0) -> Any:
    total = start
    for item in items:
        total = item if total is start == 0 else binary("+", total, item)
    return total


def _absolute(value: Any) -> Any:
    return evaluate("abs", value) if is_value(value) else abs(value)


def _rounded(value: Any, digits: int = 0) -> Any:
    if abs(digits) > limits.ROUND_DIGITS:
        raise ValueError(f"{digits} digits")
    return round(value, digits) if digits else round(value)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes plain values alone."""

    def checked(*args: Any) -> Any:
        if any(map(is_value, args)):
            raise ValueError("a tensor or a size that is not known")
        return function(*args)

    return checked


def _numpy_function(name: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        for setting in kwargs.values():
            if isinstance(setting, str) and setting not in DTYPES:
                raise ValueError(f"{setting!r}, where a dtype is expected")
        return evaluate(name, *map(_numbers, args), **kwargs)

    return function


def _array(value: Any, dtype: str | None = None) -> Any:
    """Return an array in numpy's own dtypes."""
    if is_value(value) or any(map(is_value, values.parts(value))):
        return array(value, dtype)
    return np.asarray(_numbers(value), _dtype(dtype))


def _dtype(name: str | None) -> str | None:
    if name is not None and name not in DTYPES:
        raise ValueError(f"{name!r}, where a dtype is expected")
    return name


def _filled(number: int) -> Callable[..., Any]:
    def function(shape: Any, dtype: str = "float64") -> Any:
        return computed.full(converters.lengths(shape), number, str(_dtype(dtype)))

    return function


def _arange(*bounds: Any, dtype: str | None = None) -> Any:
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    first, last, by = map(converters.number, (start, stop, step))
    default = "int64" if isinstance(first + last + by, int) else "float64"
    return computed.arange(first, last, by, _dtype(dtype) or default)


def _linspace(start: float, stop: float, num: int = 50) -> Any:
    budget.spend(num, 8)
    return np.linspace(converters.number(start), converters.number(stop), num)


def _cast(dtype: str) -> Callable[..., Any]:
    return lambda value: evaluate("cast", _numbers(value), dtype)


def _math_function(name: str) -> Callable[..., float]:
    def function(*args: float) -> float:
        result = getattr(math, name)(*map(converters.number, args))
        return float(result) if name != "floor" and name != "ceil" else int(result)

    return function


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{f"numpy.{name}": _numpy_function(name) for name in NUMPY_FUNCTIONS},
    **{f"numpy.{name}": _cast(name) for name in DTYPES},
    **{f"math.{name}": _math_function(name) for name in MATH_FUNCTIONS},
    "numpy.arange": _arange,
    "numpy.array": _array,
    "numpy.asarray": _array,
    "numpy.linspace": _linspace,
    "numpy.ones": _filled(1),
    "numpy.reshape": lambda value, shape: computed.reshape(
        _array(value), converters.lengths(shape)
    ),
    "numpy.zeros": _filled(0),
    "python.abs": _absolute,
    "python.attribute": attribute,
    "python.binary": binary,
    "python.bool": _plain(bool),
    "python.enumerate": lambda items: tuple(enumerate(items)),
    "python.float": _plain(float),
    "python.int": _plain(int),
    "python.len": _length,
    "python.list": _plain(tuple),
    "python.max": _plain(max),
    "python.method": method,
    "python.min": _plain(min),
    "python.pow": lambda x, y: binary("**", x, y),
    "python.range": _range,
    "python.reversed": _plain(lambda items: items[::-1]),
    "python.round": _plain(_rounded),
    "python.slice": slice,
    "python.subscript": subscript,
    "python.sum": _sum,
    "python.tuple": _plain(tuple),
    "python.unary": unary,
    "python.unpack": unpack,
    "python.xrange": _range,
    "python.zip": lambda *items: tuple(zip(*items, strict=False)),
}
# Functions of Python that only instructions call.
INSTRUCTIONS = {*("attribute", "binary", "method", "subscript", "unary", "unpack")}
BUILTINS = {
    name.removeprefix("python.") for name in FUNCTIONS if name.startswith("python.")
} - INSTRUCTIONS
