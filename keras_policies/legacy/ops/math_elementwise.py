"""`tf.math`: arithmetic, comparisons and functions of one number, item by item."""

import operator
from operator import floordiv, truediv
from typing import Any

import numpy as np

from keras_policies.late import ops
from keras_policies.legacy.ops import elementwise
from keras_policies.legacy.ops.elementwise import apply, of_tensors, together
from keras_policies.legacy.ops.kinds import Operand, Operands, Tensor
from keras_policies.legacy.ops.registry import Raw, op

# keras.ops, NumPy and tf.math give these one name; graphs write it with a capital.
SAME_NAME = {
    *("ceil", "cos", "cosh", "exp", "expm1", "floor", "log", "log1p", "sign", "sin"),
    *("sinh", "sqrt", "square", "tan"),
    *("erf", "erfc", "erfinv"),  # not in NumPy
}
# Their inverses: `arcsin` in keras.ops and NumPy, `asin` in tf.math, `Asin` in graphs.
INVERTED = "sin", "cos", "tan", "sinh", "cosh", "tanh"
MAX_BITS = 1024  # of an integer


def power(x: Any, y: Any) -> Any:
    """Return `x ** y`, or raise ValueError for an integer of too many bits."""
    if isinstance(x, int) and isinstance(y, int):
        bits = x.bit_length() * abs(y)
        if bits > MAX_BITS:
            raise ValueError(f"a number of {str(bits)[:20]} bits")
    return x**y


elementwise.register(
    "x y",
    ("subtract", operator.sub, "math.subtract", "Sub"),
    ("multiply", operator.mul, "math.multiply", "Mul"),
    ("true_divide", truediv, "math.divide math.truediv compat.v1.div", "RealDiv Div"),
    ("divide_no_nan", np.divide, "math.divide_no_nan", "DivNoNan"),
    ("floor_divide", floordiv, "math.floordiv compat.v1.floor_div", "FloorDiv"),
    ("mod", operator.mod, "math.floormod math.mod", "FloorMod"),
    ("power", power, "math.pow", "Pow"),
    ("maximum", max, "math.maximum", "Maximum"),
    ("minimum", min, "math.minimum", "Minimum"),
    ("greater", operator.gt, "math.greater", "Greater"),
    ("greater_equal", operator.ge, "math.greater_equal", "GreaterEqual"),
    ("less", operator.lt, "math.less", "Less"),
    ("less_equal", operator.le, "math.less_equal", "LessEqual"),
    ("equal", operator.eq, "math.equal __operators__.eq", "Equal"),
    ("not_equal", operator.ne, "math.not_equal __operators__.ne", "NotEqual"),
    ("logical_and", np.logical_and, "math.logical_and", "LogicalAnd"),
    ("logical_or", np.logical_or, "math.logical_or", "LogicalOr"),
    ("logical_xor", np.logical_xor, "math.logical_xor", ""),
)
elementwise.register(
    "x",
    ("abs", abs, "math.abs", "Abs ComplexAbs"),
    ("negative", operator.neg, "math.negative", "Neg"),
    ("rsqrt", lambda x: 1 / np.sqrt(x), "math.rsqrt", "Rsqrt"),
    ("reciprocal", np.reciprocal, "math.reciprocal", "Reciprocal Inv"),
    ("tanh", np.tanh, "math.tanh nn.tanh", "Tanh"),
    ("round", np.round, "math.round math.rint", "Round Rint"),
    ("isnan", np.isnan, "math.is_nan", "IsNan"),
    ("isinf", np.isinf, "math.is_inf", "IsInf"),
    ("isfinite", np.isfinite, "math.is_finite", "IsFinite"),
    ("logical_not", operator.not_, "math.logical_not", "LogicalNot"),
    ("real", np.real, "math.real", "Real"),
    ("imag", np.imag, "math.imag", "Imag"),
    ("conj", np.conj, "math.conj", "Conj"),
    ("angle", None, "math.angle", "Angle"),
    ("sigmoid", None, "math.sigmoid nn.sigmoid", "Sigmoid"),
    ("log_sigmoid", None, "math.log_sigmoid", ""),
    ("softplus", None, "math.softplus nn.softplus", "Softplus"),
    *((n, getattr(np, n, None), f"math.{n}", n.capitalize()) for n in SAME_NAME),
    *((f"arc{n}", getattr(np, f"arc{n}"), f"math.a{n}", f"A{n}") for n in INVERTED),
)


def added(x: Operand, y: Operand) -> Tensor:
    """Add tensors; Keras on TensorFlow takes a tall `y`, `(n, 1)`, for a bias."""
    is_tall = len(np.shape(y)) > 1 and np.shape(y)[-1] == 1
    return ops.subtract(x, ops.negative(y)) if is_tall else ops.add(x, y)


@op("math.add", "__operators__.add", Add=Raw("x y"), AddV2=Raw("x y"))
def add(x: Operand, y: Operand) -> Operand:
    """Add tensors, sizes or constants."""
    return apply(added, operator.add, x, y)


@op("math.add_n", "math.accumulate_n", AddN=Raw("*inputs"))
def add_n(inputs: Operands) -> Tensor:
    """Return the sum of a list."""
    total, *rest = together(*inputs)
    for value in rest:
        total = added(total, value)
    return total


def _zero_where_zero(x: Tensor, value: Tensor) -> Tensor:
    return ops.where(ops.equal(x, 0), ops.zeros_like(value), value)


op("math.atan2", Atan2=Raw("y x"))(of_tensors(lambda y, x: ops.arctan2(y, x)))
op("math.scalar_mul", v1=True)(of_tensors(lambda scalar, x: ops.multiply(scalar, x)))
op("math.squared_difference", SquaredDifference=Raw("x y"))(
    of_tensors(lambda x, y: ops.square(ops.subtract(x, y)))
)
op("math.xlogy", Xlogy=Raw("x y"))(
    of_tensors(lambda x, y: _zero_where_zero(x, ops.multiply(x, ops.log(y))))
)
op("math.xdivy", Xdivy=Raw("x y"))(
    of_tensors(lambda x, y: _zero_where_zero(x, ops.divide(x, y)))
)
op("math.multiply_no_nan", MulNoNan=Raw("x y"))(
    of_tensors(lambda x, y: _zero_where_zero(y, ops.multiply(x, y)))
)
