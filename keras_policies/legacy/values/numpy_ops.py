"""Functions of `keras.ops` that numpy lacks, names otherwise or means otherwise.

No backend compiles the convolutions for one set of shapes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_policies.legacy.base.weights import Array

Setting = int | Sequence[int]  # for all spatial axes, or one for each


def conv(x: Array, kernel: Array, **settings: Any) -> Array:
    """Convolve `x` with a kernel, `(*window, channels of a group, filters)`."""
    size, filters = kernel.shape[-2:]
    is_first = settings.get("data_format") == "channels_first"
    groups = x.shape[1 if is_first else -1] // size

    def product(part: Array, weights: Array) -> Array:
        if groups == 1:
            return np.asarray(np.matmul(part, weights))
        part = part.reshape(*part.shape[:-1], groups, size)
        weights = weights.reshape(size, groups, -1)
        products: Array = np.einsum("...gc,cgf->...gf", part, weights)
        return products.reshape(*products.shape[:-2], filters)

    return _summed(x, kernel, product, **settings)


def depthwise_conv(x: Array, kernel: Array, **settings: Any) -> Array:
    """Convolve each channel by itself, `(*window, channels, filters of each)`."""

    def product(part: Array, weights: Array) -> Array:
        products = part[..., np.newaxis] * weights
        return products.reshape(*products.shape[:-2], -1)

    return _summed(x, kernel, product, **settings)


def _summed(
    x: Array,
    kernel: Array,
    product: Callable[[Array, Array], Array],
    strides: Setting = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Setting = 1,
) -> Array:
    """Return the sum of the products of each position of the window."""
    is_first = data_format == "channels_first"
    x = np.moveaxis(x, 1, -1) if is_first else x
    window = kernel.shape[:-2]
    strides, rates = _each(strides, window), _each(dilation_rate, window)
    spans = [(n - 1) * rate + 1 for n, rate in zip(window, rates, strict=True)]
    pads = [(0, 0)] * len(window)
    if padding == "same":
        sizes = zip(x.shape[1:-1], strides, spans, strict=True)
        missing = [max((-(-n // s) - 1) * s + span - n, 0) for n, s, span in sizes]
        pads = [(n // 2, n - n // 2) for n in missing]
    x = np.pad(x, [(0, 0), *pads, (0, 0)])
    ends = [n - span + 1 for n, span in zip(x.shape[1:-1], spans, strict=True)]
    if min(ends) < 1:
        raise ValueError(f"a window of {spans} in an image of {x.shape[1:-1]}")
    total: Any = 0
    for at in np.ndindex(*window):
        starts = [i * rate for i, rate in zip(at, rates, strict=True)]
        steps = zip(starts, ends, strides, strict=True)
        part = x[(slice(None), *(slice(i, i + end, step) for i, end, step in steps))]
        total = total + product(part, kernel[at])
    return np.moveaxis(total, -1, 1) if is_first else total


def _each(setting: Setting, window: Sequence[int]) -> list[int]:
    return [setting] * len(window) if isinstance(setting, int) else [*setting]


def cast(x: Any, dtype: str) -> Any:
    """Return an array in a dtype."""
    return np.asarray(x).astype(dtype)


def _unstack(x: Any, num: int | None = None, axis: int = 0) -> tuple[Any, ...]:
    parts = tuple(np.moveaxis(np.asarray(x), axis, 0))
    if num is not None and num != len(parts):
        raise ValueError(f"num: expected {len(parts)}, found {num}")
    return parts


def _mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return means; like TensorFlow, truncate those of integers."""
    dtype, mean = np.asarray(x).dtype, np.mean(x, axis=axis, keepdims=keepdims)
    return np.trunc(mean).astype(dtype) if dtype.kind in "iu" else mean


def _softmax(x: Any, axis: int | tuple[int, ...] = -1) -> Any:
    powers = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return powers / np.sum(powers, axis=axis, keepdims=True)


def _divide_no_nan(x: Any, y: Any) -> Any:
    quotient = np.where(np.equal(y, 0), np.zeros_like(x), np.divide(x, y))
    return quotient.astype(np.result_type(x, y))


def _elu(x: Any, alpha: float = 1.0) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))).astype(x.dtype)


def _selu(x: Any) -> Any:
    """Return the scaled exponential linear unit (Klambauer et al., 2017)."""
    return (1.0507009873554805 * _elu(x, 1.6732632423543772)).astype(x.dtype)


def _sigmoid(x: Any) -> Any:
    return (1 / (1 + np.exp(-x))).astype(x.dtype)


# Name in keras.ops -> the function of arrays.
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "argsort": lambda x, axis=-1: np.argsort(x, axis=axis, kind="stable"),
    "cast": cast,
    "conv": conv,
    "depthwise_conv": depthwise_conv,
    "divide_no_nan": _divide_no_nan,
    "elu": _elu,
    "mean": _mean,
    "moments": lambda x, axes, keepdims=False: (
        np.mean(x, axis=axes, keepdims=keepdims),
        np.var(x, axis=axes, keepdims=keepdims),
    ),
    "relu": lambda x: np.maximum(x, np.zeros((), x.dtype)),
    "relu6": lambda x: np.clip(x, *np.array([0, 6], x.dtype)),
    "rsqrt": lambda x: (1 / np.sqrt(x)).astype(np.asarray(x).dtype),
    "selu": _selu,
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "softmax": _softmax,
    "softplus": lambda x: np.logaddexp(x, np.zeros((), x.dtype)),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "stop_gradient": lambda x: x,
    "unstack": _unstack,
}
