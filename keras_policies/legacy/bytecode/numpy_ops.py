"""Functions and constants of `numpy` and `math`, for constants of bounded size."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import kinds, table

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
# Of numbers and arrays; on tensors, the function of `tf.math` with this name.
ELEMENTWISE = {
    **{name: name for name in ("abs", "ceil", "cos", "cosh", "exp", "floor", "log")},
    **{name: name for name in ("maximum", "minimum", "sign", "sin", "sinh", "sqrt")},
    **{name: name for name in ("add", "multiply", "square", "subtract", "tan", "tanh")},
    **{"divide": "truediv", "power": "pow", "log1p": "log1p", "expm1": "expm1"},
    **{"arctan": "atan", "arctan2": "atan2", "negative": "negative"},
}
# Their results have at most one item for each of the input.
REDUCING = "max", "mean", "min", "prod", "std", "sum", "var"
SHAPING = "array", "asarray", "expand_dims", "ravel", "reshape", "squeeze", "transpose"
OF_NUMBERS = "log2", "log10", "cbrt", "deg2rad", "rad2deg"
IN_MATH = "ceil", "cos", "exp", "floor", "log", "log10", "pow", "sin", "sqrt", "tan"


def _elementwise(name: str, on_tensors: str) -> Callable[..., Any]:
    def function(*args: Any) -> Any:
        if any(map(kinds.is_tensor, args)):
            return table.call(f"math.{on_tensors}", args, {})
        check(args)
        return getattr(np, name)(*args)

    return function


def _of_constants(name: str) -> Callable[..., Any]:
    def function(value: Any, *args: Any, **kwargs: Any) -> Any:
        check((value, *args, *kwargs.values()))
        return getattr(np, name)(value, *args, **kwargs)

    return function


def check(args: Sequence[Any]) -> None:
    """Raise if constants are no numbers, or an array of all pairs would be too large.

    Numbers of Python without a limit would be computed for as long as they grow.
    """
    if any(map(kinds.is_tensor, args)):
        raise ValueError("a tensor, where numpy expects numbers")
    for arg in args:
        kind = np.asarray(arg).dtype.kind
        if arg is not None and kind not in NUMBERS and arg not in DTYPES:
            raise ValueError(f"{str(arg)[:80]!r}, where numpy expects numbers")
    budget.spend(math.prod(np.size(arg) for arg in args), 8)


def _filled(name: str) -> Callable[..., Any]:
    def function(shape: Any, *args: Any, **kwargs: Any) -> Any:
        lengths = (shape,) if isinstance(shape, int) else tuple(shape)
        budget.spend(math.prod(map(kinds.integer, lengths)), 8)
        check((*args, *kwargs.values()))
        return getattr(np, name)(lengths, *args, **kwargs)

    return function


def _arange(*bounds: Any, dtype: Any = None) -> Any:
    start, stop = (0, bounds[0]) if len(bounds) == 1 else bounds[:2]
    step = bounds[2] if len(bounds) > 2 else 1
    budget.spend(abs(kinds.number(stop) - kinds.number(start)) / abs(step), 8)
    check((dtype,))
    return np.arange(*bounds, dtype=dtype)


def _linspace(start: float, stop: float, num: int = 50) -> Any:
    budget.spend(num, 8)
    return np.linspace(start, stop, num)


def _cast(dtype: str) -> Callable[..., Any]:
    def function(value: Any) -> Any:
        if kinds.is_tensor(value):
            return table.call("cast", [value, dtype], {})
        return np.asarray(value).astype(dtype)

    return function


def _of_math(name: str) -> Callable[..., float]:
    def function(*args: float) -> float:
        found = getattr(math, name)(*map(kinds.number, args))
        return float(found) if name != "floor" and name != "ceil" else int(found)

    return function


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{f"numpy.{n}": _elementwise(n, t) for n, t in ELEMENTWISE.items()},
    **{f"numpy.{n}": _of_constants(n) for n in (*REDUCING, *SHAPING, *OF_NUMBERS)},
    **{f"numpy.{n}": _filled(n) for n in ("ones", "zeros")},
    **{f"numpy.{n}": _cast(n) for n in DTYPES},
    "numpy.arange": _arange,
    "numpy.linspace": _linspace,
    **{f"math.{n}": _of_math(n) for n in IN_MATH},
}
