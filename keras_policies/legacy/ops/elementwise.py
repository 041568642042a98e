"""Arithmetic, comparisons, mathematical functions, activations and reductions: data.

By the TensorFlow name that an op layer records; the value is the name in `keras.ops`,
looked up when it is needed, as the lowest Keras does not have all of them.
"""

import operator

import numpy as np
from keras import ops

from keras_policies.legacy.ops import kinds, sizes

# Name in TensorFlow -> (name in keras.ops, the same for numbers).
BINARY = {
    "math.subtract": ("subtract", operator.sub),
    "math.multiply": ("multiply", operator.mul),
    "math.divide": ("true_divide", operator.truediv),
    "math.divide_no_nan": ("divide_no_nan", np.divide),
    "math.floordiv": ("floor_divide", operator.floordiv),
    "math.floormod": ("mod", operator.mod),
    "math.pow": ("power", operator.pow),
    "math.maximum": ("maximum", max),
    "math.minimum": ("minimum", min),
    "math.greater": ("greater", operator.gt),
    "math.greater_equal": ("greater_equal", operator.ge),
    "math.less": ("less", operator.lt),
    "math.less_equal": ("less_equal", operator.le),
    "math.equal": ("equal", operator.eq),
    "math.not_equal": ("not_equal", operator.ne),
    "math.logical_and": ("logical_and", np.logical_and),
    "math.logical_or": ("logical_or", np.logical_or),
    "math.logical_xor": ("logical_xor", np.logical_xor),
    "bitwise.bitwise_and": ("bitwise_and", operator.and_),
    "bitwise.bitwise_or": ("bitwise_or", operator.or_),
    "bitwise.bitwise_xor": ("bitwise_xor", operator.xor),
}
UNARY = {
    "math.abs": ("abs", abs),
    "math.negative": ("negative", operator.neg),
    "math.sign": ("sign", np.sign),
    "math.square": ("square", np.square),
    "math.sqrt": ("sqrt", np.sqrt),
    "math.rsqrt": ("rsqrt", lambda x: 1 / np.sqrt(x)),
    "math.reciprocal": ("reciprocal", np.reciprocal),
    "math.exp": ("exp", np.exp),
    "math.expm1": ("expm1", np.expm1),
    "math.log": ("log", np.log),
    "math.log1p": ("log1p", np.log1p),
    "math.sin": ("sin", np.sin),
    "math.cos": ("cos", np.cos),
    "math.tan": ("tan", np.tan),
    "math.asin": ("arcsin", np.arcsin),
    "math.acos": ("arccos", np.arccos),
    "math.atan": ("arctan", np.arctan),
    "math.sinh": ("sinh", np.sinh),
    "math.cosh": ("cosh", np.cosh),
    "math.tanh": ("tanh", np.tanh),
    "math.asinh": ("arcsinh", np.arcsinh),
    "math.acosh": ("arccosh", np.arccosh),
    "math.atanh": ("arctanh", np.arctanh),
    "math.floor": ("floor", np.floor),
    "math.ceil": ("ceil", np.ceil),
    "math.round": ("round", np.round),
    "math.rint": ("round", np.round),
    "math.is_nan": ("isnan", np.isnan),
    "math.is_inf": ("isinf", np.isinf),
    "math.is_finite": ("isfinite", np.isfinite),
    "math.logical_not": ("logical_not", operator.not_),
    "math.real": ("real", np.real),
}
# Of tensors alone.
OF_TENSORS = {
    "math.erf": "erf",
    "math.sigmoid": "sigmoid",
    "math.softplus": "softplus",
    "nn.relu": "relu",
    "nn.relu6": "relu6",
    "nn.elu": "elu",
    "nn.selu": "selu",
    "nn.softsign": "softsign",
    "stop_gradient": "stop_gradient",
    "math.log_sigmoid": "log_sigmoid",
    "math.erfinv": "erfinv",
    "math.erfc": "erfc",
    "math.angle": "angle",
    "bitwise.invert": "bitwise_invert",
}
REDUCTIONS = {
    "math.reduce_sum": "sum",
    "math.reduce_mean": "mean",
    "math.reduce_max": "max",
    "math.reduce_min": "min",
    "math.reduce_prod": "prod",
    "math.reduce_any": "any",
    "math.reduce_all": "all",
    "math.reduce_std": "std",
    "math.reduce_variance": "var",
    "math.reduce_logsumexp": "logsumexp",
}


def named(name):
    """Return the function of `keras.ops` of this name.

    Raises:
        ValueError: if this Keras does not have it.
    """
    if not hasattr(ops, name):
        raise ValueError(f"this Keras has no keras.ops.{name}")
    return getattr(ops, name)


def constant(value, like):
    """Return an operand in the dtype of the tensor beside it, as TensorFlow takes it.

    A Python number needs none: it takes the dtype of the other in Keras, too.
    """
    value = sizes.as_tensor(value)
    if kinds.is_tensor(value) or np.ndim(value) == 0:
        return value
    return np.asarray(value, dtype=like.dtype)


def together(*values):
    """Return operands, of which one is a tensor, all as the operations take them."""
    like = next(value for value in values if kinds.is_tensor(value))
    return [constant(value, like) for value in values]


def _listed(value):
    return value.tolist() if isinstance(value, np.ndarray) else value


def apply(symbolic, plain, *values):
    """Apply a function to tensors, or to sizes and constants alone."""
    if any(map(kinds.is_tensor, values)):
        return symbolic(*together(*values))
    return sizes.combine(symbolic, plain, *map(_listed, values))


def _binary(name, plain):
    def function(x: kinds.operand, y: kinds.operand):
        return apply(named(name), plain, x, y)

    return function


def _unary(name, plain):
    def function(x: kinds.operand):
        return apply(named(name), plain, x)

    return function


def _of_tensor(name):
    def function(x: kinds.tensor):
        return named(name)(x)

    return function


def _reduction(name):
    def function(
        input_tensor: kinds.operand,
        axis: kinds.axes = None,
        keepdims: kinds.boolean = False,
    ):
        if kinds.is_tensor(input_tensor):
            if name == "logsumexp" and isinstance(axis, int):
                axis = [axis]  # Keras 3.8 takes no int
            return named(name)(input_tensor, axis=axis, keepdims=keepdims)
        return _reduced(name, input_tensor)

    return function


def _reduced(name, values):
    """Return the product or sum of sizes, of which some are unknown."""
    step = {"prod": BINARY["math.multiply"], "sum": ("add", operator.add)}.get(name)
    if step is None or not isinstance(values, list):
        raise ValueError(f"{name} of {values}, which is no tensor of the model")
    total, *rest = values
    for value in rest:
        total = sizes.combine(named(step[0]), step[1], total, value)
    return total


FUNCTIONS = {
    **{name: _binary(*both) for name, both in BINARY.items()},
    **{name: _unary(*both) for name, both in UNARY.items()},
    **{name: _of_tensor(found) for name, found in OF_TENSORS.items()},
    **{name: _reduction(found) for name, found in REDUCTIONS.items()},
}
