"""Convolutions of arrays in numpy, which does not compile them for each shape."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_policies.legacy.base.weights import Array

Setting = int | Sequence[int]  # for all spatial axes, or one for each


def depthwise_conv(x: Array, kernel: Array, **settings: Any) -> Array:
    """Convolve each channel by itself, `(*window, channels, filters of each)`."""
    return conv(x, kernel.reshape(*kernel.shape[:-2], 1, -1), **settings)


def conv(
    x: Array,
    kernel: Array,
    strides: Setting = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Setting = 1,
) -> Array:
    """Convolve `x` with a kernel, `(*window, channels of a group, filters)`."""
    is_first = data_format == "channels_first"
    x = np.moveaxis(x, 1, -1) if is_first else x
    *window, size, filters = kernel.shape
    groups, product = x.shape[-1] // size, np.multiply if size == 1 else np.matmul
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
    for at in np.ndindex(*window):  # adds the products of one position of the window
        starts = [i * rate for i, rate in zip(at, rates, strict=True)]
        steps = zip(starts, ends, strides, strict=True)
        places = [slice(None), *(slice(i, i + end, step) for i, end, step in steps)]
        part = x[tuple(places)]
        if groups == 1:
            total = total + np.matmul(part, kernel[at])
            continue
        by_group = part.reshape(*part.shape[:-1], groups, 1, size)
        weights = kernel[at].reshape(size, groups, -1).swapaxes(0, 1)
        total = total + product(by_group, weights).reshape(*part.shape[:-1], filters)
    return np.moveaxis(total, -1, 1) if is_first else total


def _each(setting: Setting, window: Sequence[int]) -> list[int]:
    return [setting] * len(window) if isinstance(setting, int) else [*setting]
