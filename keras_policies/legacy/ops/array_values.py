"""Functions directly under `tf` on values: casts, bounds, choices, and identities."""

import numpy as np

from keras_policies.late import ops
from keras_policies.legacy.ops import elementwise, kinds, sizes
from keras_policies.legacy.ops.complex_pairs import PARTS, Complex
from keras_policies.legacy.ops.elementwise import of_tensors, together
from keras_policies.legacy.ops.kinds import Axes, DType, Operand, Operands, Tensor
from keras_policies.legacy.ops.math_reductions import euclidean_norm
from keras_policies.legacy.ops.registry import Raw, op

CHOICE = Raw("condition x y")
SAME = Raw("input")
elementwise.register("x", ("stop_gradient", None, "stop_gradient", "StopGradient"))


@op(
    "identity",
    CheckNumerics=SAME,
    Identity=SAME,
    PlaceholderWithDefault=SAME,
    PreventGradient=SAME,
    Snapshot=SAME,
)
def identity(input: Operand) -> Operand:
    """Return what it is given."""
    return input


@op("identity_n", IdentityN=Raw("*input"))
def identity_n(input: Operands) -> tuple[Operand, ...]:
    """Return a list as it is."""
    return tuple(input)


@op("convert_to_tensor")
def convert_to_tensor(
    value: Operand, dtype: DType | None = None, dtype_hint: object = None
) -> Operand:
    """Return a tensor as it is, and a list with tensors in it as one tensor."""
    if isinstance(value, list) and any(map(kinds.is_tensor, value)):
        return ops.stack(value)
    return value if dtype is None else cast(value, dtype)


@op("cast", Cast=Raw("x", "dtype=DstT"))
def cast(x: Operand, dtype: DType) -> Operand:
    """Change the dtype; sizes stay sizes."""
    if dtype in PARTS:
        return _as_complex(x, dtype)
    if kinds.is_tensor(x):
        return ops.cast(x, dtype)
    if isinstance(x, list | sizes.Size):
        return sizes.combine(lambda size: ops.cast(size, dtype), lambda n: n, x)
    return np.asarray(x).astype(dtype)


def _as_complex(x: Operand, dtype: str) -> Operand:
    """Return real numbers as complex ones."""
    if not kinds.is_tensor(x):
        return np.asarray(x).astype(dtype)
    real = ops.cast(x, PARTS[dtype])
    return Complex(real, ops.zeros_like(real))


@op("dtypes.complex", "complex", Complex=Raw("real imag"))
def complex_(real: Operand, imag: Operand) -> Operand:
    """Return complex numbers of their parts."""
    if any(map(kinds.is_tensor, (real, imag))):
        return Complex(*together(real, imag))
    return np.asarray(real) + 1j * np.asarray(imag)


@op("dtypes.saturate_cast")
def saturate_cast(value: Tensor, dtype: DType) -> Tensor:
    """Change the dtype, with values beyond its range set to its ends."""
    is_integer = np.issubdtype(np.dtype(dtype), np.integer)
    ends = np.iinfo(dtype) if is_integer else np.finfo(dtype)
    number = int if is_integer else float
    return ops.cast(ops.clip(value, number(ends.min), number(ends.max)), dtype)


@op("clip_by_value", ClipByValue=Raw("t clip_value_min clip_value_max"))
def clip_by_value(
    t: Tensor, clip_value_min: Operand, clip_value_max: Operand
) -> Tensor:
    """Limit values to a range."""
    _, low, high = together(t, clip_value_min, clip_value_max)
    return ops.clip(t, low, high)


@op("clip_by_norm")
def clip_by_norm(t: Tensor, clip_norm: float, axes: Axes | None = None) -> Tensor:
    """Shorten vectors to a norm of at most `clip_norm`."""
    length = euclidean_norm(t, axes, True)
    return ops.divide(ops.multiply(t, clip_norm), ops.maximum(length, clip_norm))


@op("where", Select=CHOICE, SelectV2=CHOICE)
def where(condition: Operand, x: Operand, y: Operand) -> Operand:
    """Choose between two tensors, or between sizes by a condition that is known."""
    if not kinds.is_tensor(condition):
        chosen = zip(condition, x, y, strict=True)
        return [one if kinds.boolean(which) else other for which, one, other in chosen]
    if any(map(kinds.is_tensor, (x, y))):
        x, y = together(x, y)
    return ops.where(condition, x, y)


def _quotient(x: Tensor, y: Tensor) -> Tensor:
    """Divide, rounding towards zero."""
    return ops.cast(ops.trunc(ops.divide(x, y)), x.dtype)


op("truncatediv", TruncateDiv=Raw("x y"))(of_tensors(_quotient))
# The remainder, which has the sign of `x`.
op("truncatemod", TruncateMod=Raw("x y"))(
    of_tensors(lambda x, y: ops.subtract(x, ops.multiply(_quotient(x, y), y)))
)
