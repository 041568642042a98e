"""Complex numbers as pairs of real tensors.

In Keras 3.8, `keras.ops` has complex numbers only in Fourier transforms, as such pairs.
No tensor of a rebuilt model is complex: functions pass pairs on, like lists of sizes.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from keras_policies.legacy.values.evaluator import ops

Arguments: TypeAlias = Mapping[str, Any]
Function: TypeAlias = Callable[..., Any]
# Dtype of complex numbers -> the dtype of their parts.
PARTS = {"complex64": "float32", "complex128": "float64"}


@dataclasses.dataclass(frozen=True, eq=False)
class Complex:
    """Complex numbers: two tensors of one shape."""

    real: Any
    imag: Any

    @property
    def sources(self) -> tuple[Any, Any]:
        """tuple, both tensors."""
        return self.real, self.imag

    def __repr__(self) -> str:
        return "<complex numbers>"


def among(values: Iterable[Any]) -> bool:
    """Return whether a value, or an item of a list, is complex."""
    return any(
        isinstance(value, Complex) or (isinstance(value, list) and among(value))
        for value in values
    )


def _part(value: Any, name: str) -> Any:
    """Return a part of complex numbers, and other arguments unchanged."""
    if isinstance(value, list):
        return [_part(item, name) for item in value]
    if isinstance(value, Complex):
        return getattr(value, name)
    is_constant = isinstance(value, np.ndarray | np.generic) and np.iscomplexobj(value)
    return getattr(value, name) if is_constant else value


def _each(function: Function, arguments: Arguments) -> Any:
    """Call a function that only moves or adds numbers on both parts."""
    real, imag = (_of_part(name, function, arguments) for name in ("real", "imag"))
    if isinstance(real, tuple):
        return tuple(map(Complex, real, imag))
    return Complex(real, imag)


def _of_part(name: str, function: Function, arguments: Arguments) -> Any:
    return function(**{key: _part(value, name) for key, value in arguments.items()})


def _with_parts(value: Any) -> tuple[Any, Any]:
    if isinstance(value, Complex) or np.iscomplexobj(value):
        return _part(value, "real"), _part(value, "imag")
    return value, 0.0


def _sum(function: Function, arguments: Arguments) -> Complex:
    x, y = arguments
    (a, b), (c, d) = map(_with_parts, arguments.values())
    return Complex(function(**{x: a, y: c}), function(**{x: b, y: d}))


def _product(function: Function, arguments: Arguments) -> Complex:
    x, y, *settings = arguments
    if any(arguments[key] for key in settings if key.startswith("adjoint")):
        raise ValueError("the adjoint of complex numbers")
    rest = {key: arguments[key] for key in settings}
    (a, b), (c, d) = map(_with_parts, (arguments[x], arguments[y]))

    def of(one: Any, other: Any) -> Any:
        return function(**{x: one, y: other}, **rest)

    return Complex(ops.subtract(of(a, c), of(b, d)), ops.add(of(a, d), of(b, c)))


def _einsum(function: Function, arguments: Arguments) -> Complex:
    """Compute einsum of two operands, one or both of them complex."""
    equation, inputs = arguments["equation"], arguments["inputs"]
    if len(inputs) != 2:
        raise ValueError("einsum of complex numbers takes two operands here")
    return _product(
        lambda x, y: function(equation=equation, inputs=[x, y]),
        {"x": inputs[0], "y": inputs[1]},
    )


def _quotient(function: Function, arguments: Arguments) -> Complex:
    (a, b), (c, d) = map(_with_parts, arguments.values())
    square = ops.add(ops.square(c), ops.square(d))
    real = ops.add(ops.multiply(a, c), ops.multiply(b, d))
    imag = ops.subtract(ops.multiply(b, c), ops.multiply(a, d))
    return Complex(ops.divide(real, square), ops.divide(imag, square))


def absolute(z: Complex) -> Any:
    """Return absolute values; the gradient at 0 is 0, as in TensorFlow."""
    square = ops.add(ops.square(z.real), ops.square(z.imag))
    is_zero = ops.equal(square, 0)
    length = ops.sqrt(ops.where(is_zero, ops.ones_like(square), square))
    return ops.where(is_zero, ops.zeros_like(square), length)


def _polar(length: Any, angle: Any) -> Complex:
    real, imag = ops.cos(angle), ops.sin(angle)
    return Complex(ops.multiply(length, real), ops.multiply(length, imag))


def _square(z: Complex) -> Complex:
    real = ops.subtract(ops.square(z.real), ops.square(z.imag))
    return Complex(real, ops.multiply(2, ops.multiply(z.real, z.imag)))


def _sqrt(z: Complex) -> Complex:
    """Return the root whose real part is not negative."""
    length = ops.add(absolute(z), ops.abs(z.real))
    is_zero = ops.equal(length, 0)
    larger = ops.sqrt(ops.where(is_zero, ops.ones_like(length), length / 2))
    smaller = ops.divide(z.imag, ops.multiply(2, larger))
    larger = ops.where(is_zero, ops.zeros_like(length), larger)
    is_right, is_above = ops.greater_equal(z.real, 0), ops.greater_equal(z.imag, 0)
    return Complex(
        ops.where(is_right, larger, ops.abs(smaller)),
        ops.where(is_right, smaller, ops.where(is_above, larger, ops.negative(larger))),
    )


def _power(function: Function, arguments: Arguments) -> Complex:
    z, exponent = arguments.values()
    is_number = isinstance(exponent, int | float | complex | np.ndarray | np.generic)
    if not isinstance(z, Complex) or not is_number or np.any(np.imag(exponent)):
        raise ValueError("complex numbers to a power that is not a real number")
    power = np.real(exponent)
    if np.all(power == 2):
        return _square(z)
    angle = ops.multiply(ops.arctan2(z.imag, z.real), power)
    return _polar(ops.power(absolute(z), power), angle)


def _of_one(rule: Callable[[Complex], Any]) -> Callable[[Function, Arguments], Any]:
    return lambda function, arguments: rule(next(iter(arguments.values())))


def _cast(function: Function, arguments: Arguments) -> Any:
    """Change the dtype; as in TensorFlow, a real dtype drops the imaginary part."""
    z, dtype = arguments.values()
    if dtype not in PARTS:
        return function(x=z.real, dtype=dtype)
    return Complex(ops.cast(z.real, PARTS[dtype]), ops.cast(z.imag, PARTS[dtype]))


LINEAR = {
    *("concat", "expand_dims", "gather", "identity", "identity_n", "math.add_n"),
    *("math.negative", "math.reduce_mean", "math.reduce_sum", "pad", "reshape"),
    *("reverse", "roll", "slice", "split", "squeeze", "stack", "strided_slice"),
    *("tile", "transpose", "unstack", "zeros_like", "__operators__.getitem"),
}
# Name in TensorFlow -> the rule for complex numbers, called with the function of real
# tensors and the arguments by name. Other functions refuse complex numbers.
RULES: dict[str, Callable[[Function, Arguments], Any]] = {
    **dict.fromkeys(LINEAR, _each),
    **dict.fromkeys(("math.add", "math.subtract"), _sum),
    **dict.fromkeys(("math.multiply", "linalg.matmul"), _product),
    "linalg.einsum": _einsum,
    "math.divide": _quotient,
    "cast": _cast,
    "math.abs": _of_one(absolute),
    "math.angle": _of_one(lambda z: ops.arctan2(z.imag, z.real)),
    "math.conj": _of_one(lambda z: Complex(z.real, ops.negative(z.imag))),
    "math.exp": _of_one(lambda z: _polar(ops.exp(z.real), z.imag)),
    "math.imag": _of_one(lambda z: z.imag),
    "math.pow": _power,
    "math.real": _of_one(lambda z: z.real),
    "math.sqrt": _of_one(_sqrt),
    "math.square": _of_one(_square),
    "shape": functools.partial(_of_part, "real"),
}
