"""`tf.math`: arithmetic, comparisons and functions of one number, item by item."""

from typing import Any

from keras_policies.legacy.ops.converters import Value, Values
from keras_policies.legacy.ops.registry import OpSignature, functions, op
from keras_policies.legacy.values.evaluator import ops

# keras.ops and tf.math give these one name; graphs write it with a capital.
SAME_NAME = {
    *("ceil", "cos", "cosh", "erf", "erfc", "erfinv", "exp", "expm1", "floor", "log"),
    *("log1p", "sign", "sin", "sinh", "sqrt", "square", "tan"),
}
# Their inverses: `arcsin` in keras.ops, `asin` in tf.math, `Asin` in graphs.
INVERTED = "sin", "cos", "tan", "sinh", "cosh", "tanh"

functions(
    "x y",
    ("add", "math.add __operators__.add", "Add AddV2"),
    ("subtract", "math.subtract", "Sub"),
    ("multiply", "math.multiply", "Mul"),
    ("true_divide", "math.divide math.truediv", "RealDiv"),
    ("divide_no_nan", "math.divide_no_nan", "DivNoNan"),
    ("floor_divide", "math.floordiv compat.v1.floor_div", "FloorDiv"),
    ("mod", "math.floormod math.mod", "FloorMod"),
    ("power", "math.pow", "Pow"),
    ("maximum", "math.maximum", "Maximum"),
    ("minimum", "math.minimum", "Minimum"),
    ("greater", "math.greater", "Greater"),
    ("greater_equal", "math.greater_equal", "GreaterEqual"),
    ("less", "math.less", "Less"),
    ("less_equal", "math.less_equal", "LessEqual"),
    ("equal", "math.equal __operators__.eq", "Equal"),
    ("not_equal", "math.not_equal __operators__.ne", "NotEqual"),
    ("logical_and", "math.logical_and", "LogicalAnd"),
    ("logical_or", "math.logical_or", "LogicalOr"),
    ("logical_xor", "math.logical_xor", ""),
)
functions(
    "x",
    ("abs", "math.abs", "Abs ComplexAbs"),
    ("negative", "math.negative", "Neg"),
    ("rsqrt", "math.rsqrt", "Rsqrt"),
    ("reciprocal", "math.reciprocal", "Reciprocal Inv"),
    ("tanh", "math.tanh nn.tanh", "Tanh"),
    ("round", "math.round math.rint", "Round Rint"),
    ("isnan", "math.is_nan", "IsNan"),
    ("isinf", "math.is_inf", "IsInf"),
    ("isfinite", "math.is_finite", "IsFinite"),
    ("logical_not", "math.logical_not", "LogicalNot"),
    ("real", "math.real", "Real"),
    ("imag", "math.imag", "Imag"),
    ("conj", "math.conj", "Conj"),
    ("angle", "math.angle", "Angle"),
    ("sigmoid", "math.sigmoid nn.sigmoid", "Sigmoid"),
    ("log_sigmoid", "math.log_sigmoid", ""),
    ("softplus", "math.softplus nn.softplus", "Softplus"),
    *((name, f"math.{name}", name.capitalize()) for name in SAME_NAME),
    *((f"arc{name}", f"math.a{name}", f"A{name}") for name in INVERTED),
)


@op(
    "math.add_n",
    "math.accumulate_n",
    AddN=OpSignature("*inputs"),
    AccumulateNV2=OpSignature("*inputs"),
)
def add_n(inputs: Values) -> Value:
    """Return the sum of a list."""
    total, *rest = inputs
    for value in rest:
        total = ops.add(total, value)
    return total


def _zero_where_zero(x: Any, value: Any) -> Any:
    return ops.where(ops.equal(x, 0), ops.zeros_like(value), value)


def _xlogy(x: Any, y: Any) -> Any:
    return _zero_where_zero(x, ops.multiply(x, ops.log(y)))


def _xlog1py(x: Any, y: Any) -> Any:
    return _zero_where_zero(x, ops.multiply(x, ops.log1p(y)))


def _squared_difference(x: Any, y: Any) -> Any:
    return ops.square(ops.subtract(x, y))


functions("y x", ("arctan2", "math.atan2", "Atan2"))
functions("scalar x", ("multiply", "math.scalar_mul", ""), v1=True)
functions(
    "x y",
    (_squared_difference, "math.squared_difference", "SquaredDifference"),
    (_xlogy, "math.xlogy", "Xlogy"),
    (_xlog1py, "math.xlog1py", "Xlog1py"),
    (lambda x, y: _zero_where_zero(x, ops.divide(x, y)), "math.xdivy", "Xdivy"),
    (
        lambda x, y: _zero_where_zero(y, ops.multiply(x, y)),
        "math.multiply_no_nan",
        "MulNoNan",
    ),
)
