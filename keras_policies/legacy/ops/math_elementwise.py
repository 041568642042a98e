"""`tf.math`: arithmetic, comparisons and functions of one number, item by item."""

import functools

from keras_policies.legacy.ops.converters import Value, Values
from keras_policies.legacy.ops.registry import functions, op
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
    "math.add __operators__.add Add AddV2: add",
    "math.subtract Sub: subtract",
    "math.multiply Mul: multiply",
    "math.divide math.truediv RealDiv: true_divide",
    "math.divide_no_nan DivNoNan: divide_no_nan",
    "math.floordiv compat.v1.floor_div FloorDiv: floor_divide",
    "math.floormod math.mod FloorMod: mod",
    "math.pow Pow: power",
    "math.maximum Maximum: maximum",
    "math.minimum Minimum: minimum",
    "math.greater Greater: greater",
    "math.greater_equal GreaterEqual: greater_equal",
    "math.less Less: less",
    "math.less_equal LessEqual: less_equal",
    "math.equal __operators__.eq Equal: equal",
    "math.not_equal __operators__.ne NotEqual: not_equal",
    "math.logical_and LogicalAnd: logical_and",
    "math.logical_or LogicalOr: logical_or",
    "math.logical_xor: logical_xor",
)
functions(
    "x",
    "math.abs Abs ComplexAbs: abs",
    "math.negative Neg: negative",
    "math.rsqrt Rsqrt: rsqrt",
    "math.reciprocal Reciprocal Inv: reciprocal",
    "math.tanh nn.tanh Tanh: tanh",
    "math.round math.rint Round Rint: round",
    "math.is_nan IsNan: isnan",
    "math.is_inf IsInf: isinf",
    "math.is_finite IsFinite: isfinite",
    "math.logical_not LogicalNot: logical_not",
    "math.real Real: real",
    "math.imag Imag: imag",
    "math.conj Conj: conj",
    "math.angle Angle: angle",
    "math.sigmoid nn.sigmoid Sigmoid: sigmoid",
    "math.log_sigmoid: log_sigmoid",
    "math.softplus nn.softplus Softplus: softplus",
    *(f"math.{name} {name.capitalize()}: {name}" for name in SAME_NAME),
    *(f"math.a{name} A{name}: arc{name}" for name in INVERTED),
)


@op("math.add_n math.accumulate_n AddN|AccumulateNV2(*inputs)")
def add_n(inputs: Values) -> Value:
    """Return the sum of a list."""
    return functools.reduce(ops.add, inputs)


functions("y x", "math.atan2 Atan2: arctan2")
functions("scalar x", "math.scalar_mul: multiply", v1=True)
functions(
    "x y",
    "math.squared_difference SquaredDifference: square(x - y)",
    "math.xlogy Xlogy: where(x == 0, 0.0, x * log(y))",
    "math.xlog1py Xlog1py: where(x == 0, 0.0, x * log1p(y))",
    "math.xdivy Xdivy: where(x == 0, 0.0, x / y)",
    "math.multiply_no_nan MulNoNan: where(y == 0, 0.0, x * y)",
)
