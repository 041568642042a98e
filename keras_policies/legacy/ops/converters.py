"""Converters for the arguments of TensorFlow functions, as annotated types.

For the type checker, a parameter `axis: Axes` is an int or a tuple of ints; before the
call, the function `axes` converts the value in the file, or raises ValueError. A
`Value` is a tensor, a constant or a symbolic dimension. The others must be known when
the model is built.
"""

import typing
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

import numpy as np

from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops.complex_pairs import Complex
from keras_policies.legacy.values.dims import Dim, DimLike
from keras_policies.legacy.values.evaluator import array, is_tensor

Check: TypeAlias = Callable[[Any], Any]

NAMES = "bfloat16", "bool", "int16", "int32", "int64", "int8", "uint8"
# Dtype in TensorFlow's files -> dtype in numpy.
DTYPES = {
    **{f"DT_{name.upper()}": name for name in NAMES},
    **{"DT_HALF": "float16", "DT_FLOAT": "float32", "DT_DOUBLE": "float64"},
    **{"DT_COMPLEX64": "complex64", "DT_COMPLEX128": "complex128"},
}
LAST = "channels_last"
CHANNELS_LAST = "NHWC", "NWC", "NDHWC", LAST
CHANNELS_FIRST = "NCHW", "NCW", "NCDHW", "channels_first"


def _expected(kind: str, value: object) -> ValueError:
    if is_tensor(value):
        reason = "in Keras 3, no shape depends on the numbers in a tensor"
        known = "known when the model is built, such as tf.shape(x)[0]"
        return ValueError(f"expected {kind}, {known}, found a tensor: {reason}")
    return ValueError(f"expected {kind}, found {str(value)[:80]!r}")


def _scalar(value: Any) -> Any:
    is_scalar = isinstance(value, np.generic | np.ndarray) and value.ndim == 0
    return value.item() if is_scalar else value


def _python(kind: str, *types: type) -> Check:
    """Return a converter to Python values of these types; True is not a number."""

    def check(value: object) -> Any:
        scalar = _scalar(value)
        is_other_bool = isinstance(scalar, bool) and bool not in types
        if is_other_bool or not isinstance(scalar, types):
            raise _expected(kind, scalar)
        return scalar

    return check


boolean: Callable[[object], bool] = _python("True or False", bool)
number: Callable[[object], float] = _python("a number", int, float)
integer: Callable[[object], int] = _python("an integer", int)
string: Callable[[object], str] = _python("a string", str)


def integers(value: object) -> tuple[int, ...]:
    """Return a tuple of ints."""
    if not isinstance(value, list | tuple | np.ndarray) or not np.ndim(value):
        raise _expected("a list of integers", value)
    budget.work(len(value) * budget.ITEM)
    return tuple(map(integer, value))


def axes(value: object) -> int | tuple[int, ...]:
    """Return an int, or a tuple of ints."""
    if isinstance(value, list | tuple | np.ndarray) and np.ndim(value):
        return integers(value)
    return integer(value)


def pairs(value: Any) -> tuple[tuple[int, ...], ...]:
    """Return a tuple of pairs of ints."""
    rows = tuple(map(integers, value)) if np.ndim(value) == 2 else ()
    if not rows or any(len(pair) != 2 for pair in rows):
        raise _expected("a list of pairs of integers", value)
    return rows


def length(value: object) -> DimLike:
    """Return an int, or a dimension that is known only when the model runs."""
    return value if isinstance(value, Dim) else integer(value)


def lengths(value: Any) -> list[DimLike]:
    """Return a list of ints and dimensions."""
    if is_tensor(value):
        raise _expected("sizes (pad to a known length, in code)", value)
    budget.work(value.size * budget.ITEM if isinstance(value, np.ndarray) else 0)
    items = np.asarray(value, dtype=object)
    if items.ndim > 1:
        raise _expected("a list of sizes", value)
    return [length(item) for item in items.reshape(-1)]


def dtype(value: object) -> str:
    """Return a dtype's name in numpy, from that or TensorFlow's."""
    name = DTYPES.get(value, value) if isinstance(value, str) else value
    if name not in DTYPES.values():
        raise _expected("the name of a dtype of numbers", value)
    return str(name)


def padding(value: object) -> str:
    """Return `"same"` or `"valid"`."""
    if not isinstance(value, str) or value.lower() not in ("same", "valid"):
        raise ValueError(f"expected SAME or VALID, found {value!r}")
    return value.lower()


def layout(value: object) -> str:
    """Return `"channels_last"` or `"channels_first"`."""
    if value in CHANNELS_LAST:
        return LAST
    if value in CHANNELS_FIRST:
        return "channels_first"
    raise ValueError(f"expected NHWC or NCHW, found {value!r}")


def _value(value: object) -> Any:
    """Return a tensor, an array or a dimension; lists are joined."""
    if isinstance(value, str | dict | Complex) or value is None:
        raise _expected("a tensor or numbers", value)
    return array(value)


def values(value: Any) -> list[Any]:
    """Return a list of one or more values."""
    if not isinstance(value, list | tuple | np.ndarray) or not len(value):
        raise _expected("a list of tensors", value)
    return [_value(item) for item in value]


def pair(value: object) -> tuple[Any, Any]:
    """Return the parts of complex numbers, as Keras expects them."""
    if isinstance(value, np.ndarray) and np.iscomplexobj(value):
        return value.real, value.imag
    if not isinstance(value, Complex):
        raise _expected("complex numbers", value)
    return value.sources


Axes: TypeAlias = Annotated[int | tuple[int, ...], axes]
DType: TypeAlias = Annotated[str, dtype]
Layout: TypeAlias = Annotated[str, layout]
Length: TypeAlias = Annotated[int | Dim, length]
Lengths: TypeAlias = Annotated[Sequence[int | Dim], lengths]
Padding: TypeAlias = Annotated[str, padding]
Pair: TypeAlias = Annotated[tuple[Any, Any], pair]  # of complex numbers
Pairs: TypeAlias = Annotated[tuple[tuple[int, ...], ...], pairs]
Value: TypeAlias = Annotated[Any, _value]
Values: TypeAlias = Annotated[list[Any], values]
# Converters of plain types; functions themselves check arguments of the type `object`.
PLAIN: dict[Any, Check] = {
    Any: lambda value: value,
    bool: boolean,
    float: number,
    int: integer,
    object: lambda value: value,
    str: string,
    tuple[int, ...]: integers,
}


def checks(function: Callable[..., Any]) -> dict[str, Check]:
    """Return the converter of each parameter, or raise TypeError if one has none."""
    hints = typing.get_type_hints(function, include_extras=True)
    return {name: _check(hint) for name, hint in hints.items() if name != "return"}


def _check(hint: Any) -> Check:
    for option in (hint, *typing.get_args(hint)):  # a type, or a type | None
        if option in PLAIN:
            return PLAIN[option]
        for check in getattr(option, "__metadata__", ()):
            return typing.cast(Check, check)
    raise TypeError(f"{hint} has no converter")
