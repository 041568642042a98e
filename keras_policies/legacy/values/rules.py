"""The rules for functions of `keras.ops`, a row of `RULES` for each.

The functions in a row have the parameters of `keras.ops`. Costs are counts of numbers,
and are charged before anything is computed.
"""

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from keras_policies.legacy.values import alike, convolutions, dims
from keras_policies.legacy.values.dims import Dim
from keras_policies.legacy.values.ratios import Ratio

Function: TypeAlias = Callable[..., Any]
Cost: TypeAlias = Callable[..., int]


@dataclasses.dataclass(frozen=True)
class Rule:
    """How a function is evaluated, and what it costs."""

    same: tuple[int, ...] = ()  # positions of the arguments that get one dtype
    dims: Function | None = None  # for dimensions, item by item
    moves: bool = False  # numpy's function also takes arrays of dimensions
    arrays: Function | None = None  # in place of numpy's function
    node: Function | None = None  # in place of Keras's function of tensors
    # It sums many products: in float16, numpy would round each partial sum.
    is_wide: bool = False
    # numpy and Keras widen integers in sums; TensorFlow does not.
    keeps_dtype: bool = False
    returns: Cost | None = None  # count of numbers returned, by default as broadcast
    computes: Cost | None = None  # count of numbers computed, if larger
    parts: Cost | None = None  # count of arrays or tensors returned, if many


def ratio(value: Any, dtype: str = "float32") -> Any:
    """Return a number or a dimension as an exact floating-point number."""
    if isinstance(value, Dim):
        return Ratio(value, 1, dtype)
    if isinstance(value, Ratio):
        return Ratio(value.dividend, value.divisor, dtype)
    return np.dtype(dtype).type(value)


def broadcast_size(arrays: Sequence[npt.NDArray[Any]]) -> int:
    """Return the size to which arrays are broadcast, or their total size."""
    try:
        return math.prod(np.broadcast_shapes(*(x.shape for x in arrays)))
    except ValueError:
        return sum(x.size for x in arrays)


def _repeated(x: Any, repeats: Any, axis: Any = None) -> int:
    times = np.asarray(repeats)
    if times.size == 1:
        return int(np.size(x) * max(int(times.reshape(-1)[0]), 0))
    length = np.size(x) if axis is None else np.shape(x)[axis]
    return int(np.size(x) // max(length, 1) * int(times.sum()))


def _products(a: Any, b: Any) -> int:
    """Return how many products a matrix product adds."""
    a_shape, b_shape = np.shape(a), np.shape(b)
    batch = np.broadcast_shapes(a_shape[:-2], b_shape[:-2])
    columns = b_shape[-1:] if len(b_shape) > 1 else ()
    return math.prod((*batch, *a_shape[-2:], *columns))


def _of_matmul(a: Any, b: Any) -> int:
    return _products(a, b) // (np.shape(a)[-1] or 1)


def _all_pairs(a: Any, b: Any, **kwargs: Any) -> int:
    return np.size(a) * np.size(b)


def _of_conv(x: Any, *kernels: Any, **kwargs: Any) -> int:
    """Multiply the positions of an image by the size of all kernels."""
    return int(np.size(x) // max(np.shape(x)[-1], 1) * sum(map(np.size, kernels)))


def _filtered(x: Any, *kernels: Any, **kwargs: Any) -> int:
    """Return an upper bound of the size of an image after a convolution."""
    ratios = (kernel.shape[-1] / (kernel.shape[-2] or 1) for kernel in kernels)
    return int(np.size(x) * max(ratios))


def _filtered_alone(x: Any, kernel: Any, *rest: Any, **kwargs: Any) -> int:
    """Return the same for channels that have filters of their own."""
    return int(np.size(x) * kernel.shape[-1])


def _of_layer(layer: Any, x: Any, **kwargs: Any) -> int:
    """Return the cost of multiplying two arrays, or of pooling one."""
    if isinstance(x, list | tuple):
        return _all_pairs(*x)
    return int(np.size(x) * math.prod(getattr(layer, "pool_size", ())))


def _of_matrices(a: Any, b: Any = 0, **kwargs: Any) -> int:
    """Return the cost of solving linear equations: the cube of their number."""
    return int((np.size(a) + np.size(b)) * np.shape(a)[-1])


def _of_rfft(x: Any, length: int | None = None) -> int:
    count = np.size(x[0] if isinstance(x, tuple) else x)
    return count if length is None else count * max(length, 1)


def _sizes_of_einsum(equation: str, *operands: Any) -> int:
    """Return an upper bound of the products: the lengths of all letters, multiplied."""
    lengths: dict[str, int] = {}
    inputs = equation.split("->")[0].split(",")
    for letters, shape in zip(inputs, map(np.shape, operands), strict=False):
        named = letters.replace(".", "").strip()
        lengths.update(zip(named, shape[len(shape) - len(named) :], strict=False))
    return max([math.prod(lengths.values()), *map(np.size, operands)])


def _taken(x: Any, indices: Any, axis: int | None = None, **_: Any) -> int:
    length = np.size(x) if axis is None else np.shape(x)[axis]
    return int(np.size(indices) * np.size(x) // max(length, 1))


def _unstacked(x: Any, num: int | None = None, axis: int = 0) -> int:
    return num or np.shape(x)[axis] or 0


def _tiled(x: Any, times: Any) -> int:
    return int(np.size(x) * math.prod(np.ravel(times).tolist()))


def _splits(x: Any, parts: Any, axis: int = 0) -> int:
    return int(parts) if np.ndim(parts) == 0 else len(parts)


def _padded(x: Any, widths: Any, *_: Any, **__: Any) -> int:
    sizes = zip(np.shape(x), widths, strict=True)
    return math.prod(n + before + after for n, (before, after) in sizes)


def cast(x: Any, dtype: str) -> Any:
    """Return an array in a dtype."""
    return np.asarray(x).astype(dtype)


def _unstack(x: Any, num: int | None = None, axis: int = 0) -> tuple[Any, ...]:
    parts = tuple(np.moveaxis(np.asarray(x), axis, 0))
    if num is not None and num != len(parts):
        raise ValueError(f"num: expected {len(parts)}, found {num}")
    return parts


def _mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return means; as in TensorFlow, those of integers are truncated."""
    array = np.asarray(x)
    mean = array.mean(axis, keepdims=True) if keepdims else array.mean(axis)
    return np.trunc(mean).astype(array.dtype) if array.dtype.kind in "iu" else mean


def _softmax(x: Any, axis: int | tuple[int, ...] = -1) -> Any:
    powers = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return powers / np.sum(powers, axis=axis, keepdims=True)


def _divide_no_nan(x: Any, y: Any) -> Any:
    quotient = np.where(np.equal(y, 0), np.zeros_like(x), np.divide(x, y))
    return quotient.astype(np.result_type(x, y))


def _elu(x: Any, alpha: float = 1.0) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))).astype(x.dtype)


def _selu(x: Any) -> Any:  # Klambauer et al., 2017
    return (1.0507009873554805 * _elu(x, 1.6732632423543772)).astype(x.dtype)


def _sigmoid(x: Any) -> Any:
    return (1 / (1 + np.exp(-x))).astype(x.dtype)


def _moments(x: Any, axes: Any, keepdims: bool = False) -> tuple[Any, Any]:
    settings = {"axis": axes, "keepdims": keepdims}
    return np.mean(x, **settings), np.var(x, **settings)


PLAIN, PAIR, THREE = Rule(), (0, 1), (0, 1, 2)
STABLE = functools.partial(np.argsort, kind="stable")
SORTS = Rule(computes=lambda x, *_, **__: 20 * np.size(x))
MOVES, SUMS = Rule(moves=True), Rule(moves=True, keeps_dtype=True)
FILTERS = Rule(PAIR, is_wide=True, computes=_of_conv, returns=_filtered_alone)
OF_MATRICES = Rule(computes=_of_matrices)
OF_SEGMENTS = Rule(returns=lambda x, _, num_segments: np.size(x) * max(num_segments, 1))
LIST = Rule(moves=True, returns=lambda items, axis=0: sum(map(np.size, items)))
BITS = "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"
RULES: Mapping[str, Rule] = {
    "abs": Rule(node=alike.absolute),
    **dict.fromkeys(BITS, Rule(PAIR)),
    **dict.fromkeys(("arctan2", "power", "logical_and", "logical_or"), Rule(PAIR)),
    **dict.fromkeys(("logical_xor", "binary_crossentropy"), Rule(PAIR)),
    **dict.fromkeys(("diagonal", "expand_dims", "flip", "moveaxis", "reshape"), MOVES),
    **dict.fromkeys(("roll", "squeeze", "swapaxes", "transpose"), MOVES),
    **dict.fromkeys(("cumprod", "cumsum", "prod", "sum"), SUMS),
    **dict.fromkeys(("linalg.cholesky", "linalg.det", "linalg.inv"), OF_MATRICES),
    "add": Rule(PAIR, operator.add, node=alike.added),
    "argsort": dataclasses.replace(SORTS, arrays=STABLE),
    "broadcast_to": Rule(moves=True, returns=lambda x, shape: math.prod(shape)),
    "cast": Rule(arrays=cast),
    "categorical_crossentropy": Rule(PAIR),
    "ceil": Rule(dims=Ratio.ceil),
    "clip": Rule(THREE, node=alike.clip),
    "concatenate": LIST,
    "conv": dataclasses.replace(FILTERS, arrays=convolutions.conv, returns=_filtered),
    "depthwise_conv": dataclasses.replace(FILTERS, arrays=convolutions.depthwise_conv),
    "divide": Rule(PAIR, lambda x, y: ratio(x) / y),
    "divide_no_nan": Rule(PAIR, arrays=_divide_no_nan),
    "dot": Rule(PAIR, is_wide=True, returns=_all_pairs, computes=_all_pairs),
    "einsum": Rule(is_wide=True, returns=_sizes_of_einsum),
    "elu": Rule(arrays=_elu),
    "equal": Rule(PAIR, lambda x, y: not dims.not_equal(x, y)),
    "floor": Rule(dims=Ratio.floor),
    "floor_divide": Rule(PAIR, operator.floordiv),
    "greater": Rule(PAIR, operator.gt),
    "greater_equal": Rule(PAIR, operator.ge),
    "hanning": Rule(returns=lambda n: 4 * n),  # it makes copies
    "irfft": Rule(returns=_of_rfft),
    "layer": Rule(computes=_of_layer),  # a call of one
    "less": Rule(PAIR, operator.lt),
    "less_equal": Rule(PAIR, operator.le),
    "linalg.solve": Rule(PAIR, computes=_of_matrices),
    "matmul": Rule(PAIR, is_wide=True, returns=_of_matmul, computes=_products),
    "maximum": Rule(PAIR, functools.partial(dims.extreme, "max"), node=alike.maximum),
    "mean": Rule(arrays=_mean),
    "minimum": Rule(PAIR, functools.partial(dims.extreme, "min"), node=alike.minimum),
    "mod": Rule(PAIR, operator.mod),
    "moments": Rule(arrays=_moments),
    "multiply": Rule(PAIR, operator.mul),
    "negative": Rule(dims=operator.neg),
    "not_equal": Rule(PAIR, dims.not_equal),
    "outer": Rule(returns=_all_pairs),
    "pad": Rule(moves=True, returns=_padded),
    "relu": Rule(arrays=lambda x: np.maximum(x, np.zeros((), x.dtype))),
    "relu6": Rule(arrays=lambda x: np.clip(x, *np.array([0, 6], x.dtype))),
    "repeat": Rule(moves=True, returns=_repeated),
    "rfft": Rule(returns=_of_rfft),
    "rsqrt": Rule(arrays=lambda x: (1 / np.sqrt(x)).astype(np.asarray(x).dtype)),
    "scatter": Rule(returns=lambda indices, values, shape: math.prod(shape)),
    "scatter_update": Rule((0, 2)),
    "segment_max": OF_SEGMENTS,
    "segment_sum": OF_SEGMENTS,
    "selu": Rule(arrays=_selu),
    "separable_conv": dataclasses.replace(FILTERS, same=THREE, is_wide=False),
    "sigmoid": Rule(arrays=_sigmoid),
    "silu": Rule(arrays=lambda x: x * _sigmoid(x)),
    "softmax": Rule(arrays=_softmax),
    "softplus": Rule(arrays=lambda x: np.logaddexp(x, np.zeros((), x.dtype))),
    "softsign": Rule(arrays=lambda x: x / (1 + np.abs(x))),
    "sort": SORTS,
    "split": Rule(moves=True, parts=_splits),
    "square": Rule(dims=lambda x: x * x),
    "stack": LIST,
    "stop_gradient": Rule(arrays=lambda x: x),
    "subtract": Rule(PAIR, operator.sub),
    "take": Rule(moves=True, returns=_taken),
    "take_along_axis": MOVES,
    "tensordot": Rule(PAIR, is_wide=True, returns=_all_pairs),
    "tile": Rule(moves=True, returns=_tiled),
    "top_k": SORTS,
    "trace": Rule(keeps_dtype=True),
    "true_divide": Rule(PAIR, lambda x, y: ratio(x) / y),
    "unstack": Rule(moves=True, arrays=_unstack, parts=_unstacked),
    "where": Rule((1, 2), moves=True),
}
