"""Python's own operators and functions, on tensors, sizes and bounded constants.

A `tuple` is a sequence of Python; a `list` holds the sizes of a tensor, as in `ops/`.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from keras_policies.legacy.bytecode import numpy_ops, values
from keras_policies.legacy.ops import array_indexing, kinds, sizes, table

MAX_DIGITS = 20  # that a number is rounded to
# Operator -> the same on tensors, by its name in TensorFlow.
ON_TENSORS = {
    "+": "math.add",
    "-": "math.subtract",
    "*": "math.multiply",
    "/": "math.truediv",
    "//": "math.floordiv",
    "%": "math.floormod",
    "**": "math.pow",
    "@": "linalg.matmul",
    "&": "math.logical_and",
    "|": "math.logical_or",
    "^": "math.logical_xor",
    "<": "math.less",
    "<=": "math.less_equal",
    "==": "math.equal",
    "!=": "math.not_equal",
    ">": "math.greater",
    ">=": "math.greater_equal",
}
ON_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "is": lambda x, y: x is y or (x == y and type(x) is type(y)),
    "is not": lambda x, y: not (x is y or (x == y and type(x) is type(y))),
    "in": lambda x, y: x in y,
    "not in": lambda x, y: x not in y,
}
ON_ONE: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "-": ("math.negative", operator.neg),
    "+": ("identity", operator.pos),
    "~": ("math.logical_not", operator.invert),
    "not": ("", operator.not_),
}


def is_symbolic(value: Any) -> bool:
    """Return whether a value is a tensor, an array, a size or a list of sizes."""
    known = kinds.is_tensor(value) or isinstance(value, list | sizes.Size)
    return known or isinstance(value, np.ndarray | np.generic)


def binary(symbol: str, x: Any, y: Any) -> Any:
    """Return `x symbol y`; the symbol `"2/"` is the `/` of Python 2."""
    if symbol == "2/":
        symbol = "//" if _is_integer(x) and _is_integer(y) else "/"
    if is_symbolic(x) or is_symbolic(y):
        if symbol in ("is", "is not") and (x is None or y is None):
            return symbol == "is not"
        if symbol not in ON_TENSORS:
            raise ValueError(f"{symbol!r} of a tensor")
        if not (kinds.is_tensor(x) or kinds.is_tensor(y)) and _are_arrays(x, y):
            numpy_ops.check((x, y))
            return ON_NUMBERS[symbol](x, y)
        return table.call(ON_TENSORS[symbol], [x, y], {})
    _check_growth(symbol, x, y)
    found = ON_NUMBERS[symbol](x, y)
    values.check_size(found)
    return found


def _are_arrays(x: Any, y: Any) -> bool:
    return not any(isinstance(value, list | sizes.Size) for value in (x, y))


def _is_integer(value: Any) -> bool:
    if kinds.is_tensor(value):
        return "int" in value.dtype
    return isinstance(value, int | sizes.Size | list)


def _check_growth(symbol: str, x: Any, y: Any) -> None:
    """Raise ValueError for an operation whose result may not fit into memory."""
    if isinstance(x, str | bytes) and symbol == "%":
        raise ValueError("a text that is put together")
    for value, times in ((x, y), (y, x)):
        if symbol != "*" or not isinstance(value, tuple | str | bytes):
            continue
        if not isinstance(times, int) or len(value) * times > values.MAX_ITEMS:
            raise ValueError(f"a sequence repeated {str(times)[:20]} times")
    if symbol in ("**", "<<") and isinstance(x, int) and isinstance(y, int):
        bits = y + x.bit_length() if symbol == "<<" else x.bit_length() * abs(y)
        if bits > values.MAX_BITS:
            raise ValueError(f"a number of {str(bits)[:20]} bits")


def unary(symbol: str, x: Any) -> Any:
    """Return `symbol x`."""
    on_tensors, on_numbers = ON_ONE[symbol]
    if is_symbolic(x) and not isinstance(x, np.ndarray | np.generic):
        return table.call(on_tensors, [x], {})
    return on_numbers(x)


def subscript(value: Any, key: Any) -> Any:
    """Return `value[key]`."""
    if not is_symbolic(value):
        return value[key]
    spec = key if isinstance(key, tuple) else (key,)
    if len(spec) == 1 and (kinds.is_tensor(key) or isinstance(key, np.ndarray)):
        return table.call("gather", [value, key], {})
    if isinstance(value, np.ndarray):
        return value[key]
    for item in spec:
        for bound in values.parts(item) if isinstance(item, slice) else [item]:
            if bound is not None and bound is not Ellipsis:
                kinds.integer(bound)
    return array_indexing.index(value, spec)


def unpack(value: Any, count: int) -> tuple[Any, ...]:
    """Return the `count` items of a sequence, as `a, b = value` does."""
    if kinds.is_tensor(value):
        return tuple(table.call("unstack", [value, count], {}))
    items = tuple(value)
    if len(items) != count:
        raise ValueError(f"{len(items)} values, where {count} are expected")
    return items


def attribute(value: Any, name: str) -> Any:
    """Return an attribute of a tensor, or of its shape."""
    if kinds.is_tensor(value) and name in ("shape", "dtype", "ndim"):
        found = {"shape": tuple(value.shape), "ndim": len(value.shape)}
        return {**found, "dtype": value.dtype}[name]
    if name == "T" and is_symbolic(value):
        return table.call("transpose", [value], {})
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
    if kinds.is_tensor(value) and name == "get_shape":
        return tuple(value.shape)
    if isinstance(value, tuple) and name == "as_list":
        return value
    raise ValueError(f"the method {name!r}")


def _length(value: Any) -> int:
    if kinds.is_tensor(value):
        return kinds.integer(value.shape[0])
    return len(value)


def _range(*bounds: int) -> tuple[int, ...]:
    taken = range(*map(kinds.integer, bounds))
    if len(taken) > values.MAX_ITEMS:
        raise ValueError(f"{len(taken)} rounds")
    return tuple(taken)


def _sum(items: Any, start: Any = 0) -> Any:
    total = start
    for item in items:
        total = item if total is start == 0 else binary("+", total, item)
    return total


def _absolute(value: Any) -> Any:
    return table.call("math.abs", [value], {}) if is_symbolic(value) else abs(value)


def _rounded(value: Any, digits: int = 0) -> Any:
    if abs(digits) > MAX_DIGITS:
        raise ValueError(f"{digits} digits")
    return round(value, digits) if digits else round(value)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes plain values alone."""

    def checked(*args: Any) -> Any:
        if any(map(is_symbolic, args)):
            raise ValueError("a tensor or a size that is not known")
        return function(*args)

    return checked


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": _absolute,
    "attribute": attribute,
    "binary": binary,
    "bool": _plain(bool),
    "enumerate": lambda items: tuple(enumerate(items)),
    "float": _plain(float),
    "int": _plain(int),
    "len": _length,
    "list": _plain(tuple),
    "max": _plain(max),
    "method": method,
    "min": _plain(min),
    "pow": lambda x, y: binary("**", x, y),
    "range": _range,
    "reversed": _plain(lambda items: items[::-1]),
    "round": _plain(_rounded),
    "slice": slice,
    "subscript": subscript,
    "sum": _sum,
    "tuple": _plain(tuple),
    "unary": unary,
    "unpack": unpack,
    "xrange": _range,
    "zip": lambda *items: tuple(zip(*items, strict=False)),
}
BUILTINS = FUNCTIONS.keys() - {
    *("attribute", "binary", "method", "subscript", "unary", "unpack")
}
