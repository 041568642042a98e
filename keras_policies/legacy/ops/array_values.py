"""Functions directly under `tf` on values: casts, bounds, choices, and identities."""

from typing import Any

import numpy as np

from keras_policies.legacy.ops import elementwise
from keras_policies.legacy.ops.complex_pairs import PARTS, Complex
from keras_policies.legacy.ops.elementwise import of_values
from keras_policies.legacy.ops.kinds import Axes, DType, Value, Values
from keras_policies.legacy.ops.math_reductions import euclidean_norm
from keras_policies.legacy.ops.registry import Raw, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.evaluator import (
    dtype_of,
    is_integer_dtype,
    is_tensor,
    ops,
    promoted,
)

CHOICE = Raw("condition x y")
SAME = Raw("input")
elementwise.register("x", ("stop_gradient", "stop_gradient", "StopGradient"))


@op(
    "identity",
    CheckNumerics=SAME,
    Identity=SAME,
    PlaceholderWithDefault=SAME,
    PreventGradient=SAME,
    Snapshot=SAME,
)
def identity(input: Value) -> Value:
    """Return what it is given."""
    return input


@op("identity_n", IdentityN=Raw("*input"))
def identity_n(input: Values) -> tuple[Value, ...]:
    """Return a list as it is."""
    return tuple(input)


@op("convert_to_tensor")
def convert_to_tensor(
    value: Value, dtype: DType | None = None, dtype_hint: object = None
) -> Value:
    """Return a value as it is; the check of a `Value` made one of a list."""
    return value if dtype is None else cast(value, dtype)


@op("cast", Cast=Raw("x", "dtype=DstT"))
def cast(x: Value, dtype: DType) -> Value:
    """Change the dtype; dimensions stay dimensions among integers."""
    if dtype in PARTS and is_tensor(x):
        real = ops.cast(x, PARTS[dtype])
        return Complex(real, ops.zeros_like(real))
    return ops.cast(x, dtype)


@op("dtypes.complex", "complex", Complex=Raw("real imag"))
def complex_(real: Value, imag: Value) -> Value:
    """Return complex numbers of their parts."""
    real, imag = promoted([real, imag])
    if any(map(is_tensor, (real, imag))):
        zeros = ops.zeros_like(real if is_tensor(real) else imag)
        return Complex(ops.add(zeros, real), ops.add(zeros, imag))
    return real + np.complex64(1j) * imag


@op("dtypes.saturate_cast")
def saturate_cast(value: Value, dtype: DType) -> Value:
    """Change the dtype, with values beyond its range set to its ends."""
    is_integer = np.issubdtype(np.dtype(dtype), np.integer)
    ends = np.iinfo(dtype) if is_integer else np.finfo(dtype)
    number = int if is_integer else float
    return ops.cast(ops.clip(value, number(ends.min), number(ends.max)), dtype)


@op("clip_by_value", ClipByValue=Raw("t clip_value_min clip_value_max"))
def clip_by_value(t: Value, clip_value_min: Value, clip_value_max: Value) -> Value:
    """Limit values to a range."""
    return ops.clip(t, clip_value_min, clip_value_max)


@op("clip_by_norm")
def clip_by_norm(t: Value, clip_norm: Value, axes: Axes | None = None) -> Value:
    """Shorten vectors to a norm of at most `clip_norm`."""
    length = euclidean_norm(t, axes, True)
    return ops.divide(ops.multiply(t, clip_norm), ops.maximum(length, clip_norm))


@op("where", SelectV2=CHOICE)
def where(condition: Value, x: Value, y: Value) -> Value:
    """Choose between two values, item by item."""
    is_known = isinstance(condition, np.ndarray) and not condition.ndim
    if is_known and computed.shape(x) == computed.shape(y):
        return promoted([x, y])[not condition]
    return ops.where(condition, x, y)


@op(Select=CHOICE)
def select(condition: Value, x: Value, y: Value) -> Value:
    """Choose between two tensors: whole rows, if the condition is a vector."""
    for _ in range(computed.rank(x) - computed.rank(condition)):
        condition = ops.expand_dims(condition, -1)
    return where(condition, x, y)


def _truncated_quotient(x: Any, y: Any) -> Any:
    """Divide, rounding towards zero."""
    return ops.cast(ops.trunc(ops.true_divide(x, y)), dtype_of(x))


@op("compat.v1.div", Div=Raw("x y"))
def div(x: Value, y: Value) -> Value:
    """Divide as TensorFlow 1: whole numbers give whole numbers."""
    is_whole = is_integer_dtype(dtype_of(x))
    return _truncated_quotient(x, y) if is_whole else ops.true_divide(x, y)


op("truncatediv", TruncateDiv=Raw("x y"))(of_values(_truncated_quotient))


def _remainder(x: Any, y: Any) -> Any:
    """Return the remainder that has the sign of `x`."""
    return ops.subtract(x, ops.multiply(_truncated_quotient(x, y), y))


op("truncatemod", TruncateMod=Raw("x y"))(of_values(_remainder))
