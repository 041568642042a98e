"""Functions directly under `tf` on values: constants, casts, bounds and choices.

The few functions of `tf.bitwise` and `tf.quantization` are also here.
"""

from typing import Any

import numpy as np

from keras_policies.legacy.guards import budget
from keras_policies.legacy.ops import converters
from keras_policies.legacy.ops.complex_pairs import PARTS, Complex
from keras_policies.legacy.ops.converters import DType, Length, Lengths, Value
from keras_policies.legacy.ops.registry import functions, op
from keras_policies.legacy.values import computed, evaluator
from keras_policies.legacy.values.dims import Dim
from keras_policies.legacy.values.evaluator import dtype_of, has_dims, is_tensor, ops
from keras_policies.legacy.values.ratios import Ratio

functions(
    "input dtype:DType=None",
    "zeros_like ZerosLike: zeros_like",
    "ones_like OnesLike: ones_like",
    v1=True,
)


def _clipped(t: Any, low: Any, high: Any) -> Any:
    bounds = low, high
    are_numbers = all(isinstance(x, np.ndarray) and not x.ndim for x in bounds)
    if are_numbers and low <= high:  # ops.clip takes numbers
        return ops.clip(t, low, high)
    return ops.maximum(ops.minimum(t, high), low)


functions("t clip_value_min clip_value_max", (_clipped, "clip_by_value ClipByValue"))
functions(
    "input",
    "identity CheckNumerics GuaranteeConst Identity PlaceholderWithDefault "
    "PreventGradient Snapshot: input",
)
functions("input:Values", (tuple, "identity_n IdentityN(*input)"))
functions(
    "x",
    "stop_gradient StopGradient: stop_gradient",
    "bitwise.invert Invert: bitwise_invert",
)
functions(
    "x y",
    "bitwise.bitwise_and BitwiseAnd: bitwise_and",
    "bitwise.bitwise_or BitwiseOr: bitwise_or",
    "bitwise.bitwise_xor BitwiseXor: bitwise_xor",
    "bitwise.left_shift LeftShift: left_shift",
    "bitwise.right_shift RightShift: right_shift",
)


@op("fill Fill")
def fill(dims: Lengths, value: Value) -> Value:
    """Return an array of a shape that is full of a number."""
    return computed.full(dims, value, dtype_of(value))


functions(
    "shape:Lengths dtype:DType='float32'",
    (lambda shape, dtype: computed.full(shape, 0, dtype), "zeros"),
    (lambda shape, dtype: computed.full(shape, 1, dtype), "ones"),
)


@op("eye")
def eye(
    num_rows: Length,
    num_columns: Length | None = None,
    batch_shape: object = None,
    dtype: DType = "float32",
) -> Value:
    """Return an identity matrix."""
    if batch_shape is not None:
        raise ValueError("batch_shape: expected None")
    columns = num_rows if num_columns is None else num_columns
    budget.spend(1 if has_dims(num_rows * columns) else num_rows * columns, 8)
    row_numbers = ops.expand_dims(computed.arange(0, num_rows), -1)
    return ops.cast(ops.equal(row_numbers, computed.arange(0, columns)), dtype)


@op("linspace LinSpace")
def linspace(start: Value, stop: Value, num: Length) -> Value:
    """Return evenly spaced numbers, along a new first axis."""
    dtype = dtype_of(start) if "float" in dtype_of(start) else "float32"
    count = computed.arange(0, num)
    for _ in range(computed.rank(start)):
        count = ops.expand_dims(count, -1)
    share = ops.divide(ops.cast(count, dtype), ops.cast(ops.maximum(num - 1, 1), dtype))
    return ops.add(start, ops.multiply(ops.subtract(stop, start), share))


@op("range Range(start limit delta)")
def arange(
    start: Value,
    limit: Value | None = None,
    delta: Value = 1,
    dtype: DType | None = None,
) -> Value:
    """Return numbers from `start` to `limit`."""
    start, limit = (np.zeros_like(start), start) if limit is None else (start, limit)
    bounds = start, limit, np.asarray(delta)
    has_float = any("float" in dtype_of(bound) for bound in bounds)
    first, last, step = map(_bound, bounds)
    if any(map(has_dims, (first, last))):
        first, last, step = map(converters.length, (first, last, step))
    dtype = dtype or ("float32" if has_float else "int32")
    return computed.arange(first, last, step, dtype)


def _bound(value: Any) -> Any:
    """Return a bound of a range: a dimension, or a number, as an int if it is whole."""
    if isinstance(value, Ratio) and value.divisor == 1:
        return value.dividend
    number = value if isinstance(value, Dim) else converters.number(value)
    return int(number) if isinstance(number, float) and number.is_integer() else number


@op("sequence_mask")
def sequence_mask(lengths: Value, maxlen: Length, dtype: DType = "bool") -> Value:
    """Return which of `maxlen` positions are inside each length."""
    numbers = computed.arange(0, maxlen, dtype=dtype_of(lengths))
    return ops.cast(ops.less(numbers, ops.expand_dims(lengths, -1)), dtype)


@op("one_hot OneHot(indices depth on_value off_value; axis dtype=T)")
def one_hot(
    indices: Value,
    depth: Length,
    on_value: Value = 1,
    off_value: Value = 0,
    axis: int = -1,
    dtype: DType = "float32",
) -> Value:
    """Return `on_value` at each index and `off_value` elsewhere.

    Indices out of range, such as -1, give only `off_value`.
    """
    rank = computed.rank(indices) + 1
    numbers = computed.arange(0, depth, dtype=dtype_of(indices))
    numbers = computed.along(numbers, axis % rank, rank)
    is_hot = ops.equal(ops.expand_dims(indices, axis % rank), numbers)
    return ops.where(is_hot, ops.cast(on_value, dtype), ops.cast(off_value, dtype))


@op("convert_to_tensor")
def convert_to_tensor(
    value: Value, dtype: DType | None = None, dtype_hint: object = None
) -> Value:
    """Return a value; the converter has already joined a list."""
    return value if dtype is None else cast(value, dtype)


@op("cast Cast(x; dtype=DstT)")
def cast(x: Value, dtype: DType) -> Value:
    """Change the dtype; cast to integers, dimensions stay dimensions."""
    if dtype in PARTS and is_tensor(x):
        real = ops.cast(x, PARTS[dtype])
        return Complex(real, ops.zeros_like(real))
    return ops.cast(x, dtype)


@op("dtypes.complex complex Complex")
def complex_(real: Value, imag: Value) -> Value:
    """Return complex numbers from their parts."""
    real, imag = evaluator.promoted([real, imag])
    if any(map(is_tensor, (real, imag))):
        zeros = ops.zeros_like(real if is_tensor(real) else imag)
        return Complex(ops.add(zeros, real), ops.add(zeros, imag))
    return real + np.complex64(1j) * imag


@op("dtypes.saturate_cast")
def saturate_cast(value: Value, dtype: DType) -> Value:
    """Change the dtype, with values clipped to its range."""
    is_integer = np.issubdtype(np.dtype(dtype), np.integer)
    ends = np.iinfo(dtype) if is_integer else np.finfo(dtype)
    number = int if is_integer else float
    return ops.cast(ops.clip(value, number(ends.min), number(ends.max)), dtype)


functions(
    "t clip_norm axes:Axes=None",
    "clip_by_norm: t * clip_norm"
    " / maximum(sqrt(sum(square(t), axis=axes, keepdims=True)), clip_norm)",
)


@op("where SelectV2")
def where(condition: Value, x: Value, y: Value) -> Value:
    """Choose between two values, element by element."""
    is_known = isinstance(condition, np.ndarray) and not condition.ndim
    if is_known and computed.shape(x) == computed.shape(y):
        return evaluator.promoted([x, y])[not condition]
    return ops.where(condition, x, y)


@op("_Choice")
def choice(condition: Value, x: Value, y: Value) -> Value:
    """Return the result of one branch of a condition; the shapes may differ."""
    if isinstance(condition, np.ndarray) and not condition.ndim:
        return evaluator.promoted([x, y])[not condition]
    return ops.where(condition, x, y)


@op("Select")
def select(condition: Value, x: Value, y: Value) -> Value:
    """Choose between two tensors, by rows if the condition is a vector."""
    for _ in range(computed.rank(x) - computed.rank(condition)):
        condition = ops.expand_dims(condition, -1)
    return where(condition, x, y)


def _remainder(x: Any, y: Any) -> Any:
    """Return the remainder that has the sign of `x`."""
    return ops.subtract(x, ops.multiply(computed.truncated_quotient(x, y), y))


def _quotient_of_1(x: Any, y: Any) -> Any:
    """Divide as TensorFlow 1 did: a quotient of integers is truncated."""
    is_whole = evaluator.is_integer_dtype(dtype_of(x))
    return computed.truncated_quotient(x, y) if is_whole else ops.true_divide(x, y)


functions(
    "x y",
    (_quotient_of_1, "compat.v1.div Div"),
    (computed.truncated_quotient, "truncatediv TruncateDiv"),
    (_remainder, "truncatemod Mod TruncateMod"),
)


MOST_BITS = 63  # that TensorFlow accepts


def _highest(bits: int) -> int:
    """Return the highest unsigned number of some bits."""
    if not 0 < bits <= MOST_BITS:
        raise ValueError(f"num_bits: expected 1 to {MOST_BITS}, found {bits}")
    return int(2**bits) - 1


@op(
    "quantization.fake_quant_with_min_max_vars "
    "quantization.fake_quant_with_min_max_vars_per_channel FakeQuantWithMinMaxVars "
    "FakeQuantWithMinMaxVarsPerChannel",
    v1=True,
)
def fake_quantization(
    inputs: Value, min: Value, max: Value, num_bits: int = 8, narrow_range: bool = False
) -> Value:
    """Round to `2**num_bits` values between two bounds, one of them exactly zero.

    Source: Nudge in tensorflow/core/kernels/fake_quant_ops_functor.h.
    """
    lowest, highest = int(narrow_range), _highest(num_bits)
    scale = ops.divide(ops.subtract(max, min), highest - lowest)
    zero = ops.subtract(lowest, ops.divide(min, scale))
    zero = ops.clip(ops.floor(ops.add(zero, 0.5)), lowest, highest)
    first, last = (
        ops.multiply(ops.subtract(bound, zero), scale) for bound in (lowest, highest)
    )
    # The gradient is 1 between the bounds, elsewhere that of the bound.
    bounded = ops.maximum(inputs, _straight(min, first))
    bounded = ops.minimum(bounded, _straight(max, last))
    steps = ops.floor(ops.add(ops.divide(ops.subtract(bounded, first), scale), 0.5))
    return _straight(bounded, ops.add(ops.multiply(steps, scale), first))


def _straight(x: Any, value: Any) -> Any:
    """Return a value that has the gradient of `x`."""
    return ops.add(x, ops.stop_gradient(ops.subtract(value, x)))


@op(
    "quantization.quantize_and_dequantize_v2 QuantizeAndDequantizeV2(input input_min "
    "input_max; signed_input num_bits range_given round_mode narrow_range axis) "
    "QuantizeAndDequantizeV3(input input_min input_max num_bits; signed_input "
    "range_given narrow_range axis) QuantizeAndDequantizeV4(input input_min "
    "input_max; signed_input num_bits range_given round_mode narrow_range axis)"
)
def quantize_and_dequantize(
    input: Value,
    input_min: Value,
    input_max: Value,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    name: object = None,
    narrow_range: bool = False,
    axis: int | None = None,
) -> Value:
    """Round to `2**num_bits` values, in a given range or the range of the numbers.

    Source: tensorflow/core/kernels/quantize_and_dequantize_op.h.
    """
    rank = computed.rank(input)
    axis = None if axis is not None and axis < 0 else axis
    if not range_given:
        axes = [i for i in range(rank) if i != axis]
        input_min = ops.min(input, axis=axes, keepdims=True)
        input_max = ops.max(input, axis=axes, keepdims=True)
    elif axis is not None:
        input_min = computed.along(input_min, axis, rank)
        input_max = computed.along(input_max, axis, rank)
    highest = _highest(num_bits - signed_input)
    lowest = -highest - (not narrow_range) if signed_input else 0
    width, scale = ops.divide(input_max, highest), ops.divide(highest, input_max)
    if lowest:  # the bound farther from 0 decides
        other = ops.divide(input_min, lowest)
        is_farther = ops.greater(other, width)
        scale = ops.where(is_farther, ops.divide(lowest, input_min), scale)
        width = ops.where(is_farther, other, width)
    first, last = ops.multiply(width, lowest), ops.multiply(width, highest)
    bounded = ops.minimum(ops.maximum(input, first), last)
    scaled = ops.multiply(bounded, ops.where(ops.equal(width, 0), 0.0, scale))
    is_even = round_mode == "HALF_TO_EVEN"
    whole = ops.round(scaled) if is_even else ops.floor(ops.add(scaled, 0.5))
    return _straight(bounded, ops.multiply(whole, width))


def _of_settings(inputs: Any, min: float, max: float, **settings: Any) -> Any:
    """Quantize between numbers, rounded to float32: where halves go depends on it."""
    return fake_quantization(inputs, np.float32(min), np.float32(max), **settings)


functions(
    "inputs min:float=-6.0 max:float=6.0 num_bits:int=8 narrow_range:bool=False",
    (_of_settings, "quantization.fake_quant_with_min_max_args FakeQuantWithMinMaxArgs"),
    v1=True,
)
